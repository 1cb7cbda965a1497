"""`MixupCollate`: augmentation inside any PyTorch loop, as the collate function of its DataLoader."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rmixup import keys
from rmixup.augment import Augmentation, Prepared, as_augmentation
from rmixup.augment.labels import named
from rmixup.errors import DataError, LeakageError


class MixupCollate:
    """Collate samples (network, label) into an augmented batch.

    With `train`, partners and everything fitted come from the whole training set, and each sample is found in it by
    its content, so that samplers, subsets and shuffling need no bookkeeping, and a network that is not in the training
    set is refused. Without it, the samples of a batch are mixed with one another, and logarithms are computed anew for
    every batch. The result follows from seed, epoch and the samples of the batch alone: any number of workers gives
    the same stream.

    Parameters
    ----------
    augmentation : name or `Augmentation`
    train : `rmixup.Networks`, (x, y), (x, y, groups), a Dataset of (network, label), or None
        The training networks, all of them and nothing else.
    seed : int
    n_classes : int or None
        Columns of the labels; needed for class codes without `train`.
    cache : folder or None
        Where `prepare` remembers logarithms.

    Returns of a call
    -----------------
    x (B, n, n) in the dtype of the samples, and y: class probabilities (B, C), which `torch.nn.CrossEntropyLoss` takes
    as they are, or numbers (B,) or (B, k).

    Notes
    -----
    Call `set_epoch` as for a distributed sampler, so that every epoch mixes anew. With shuffling, batches and so
    plans differ from epoch to epoch anyway.

    >>> from torch.utils.data import DataLoader
    >>> pairs = [(torch.eye(3) * (k + 1), k % 2) for k in range(4)]
    >>> loader = DataLoader(pairs, batch_size=2, collate_fn=MixupCollate("rmixup", train=pairs))
    >>> [tuple(x.shape) + tuple(y.shape) for x, y in loader]
    [(2, 3, 3, 2, 2), (2, 3, 3, 2, 2)]
    """

    def __init__(
        self,
        augmentation: str | Augmentation = "rmixup",
        train: Any = None,
        seed: int = 0,
        *,
        n_classes: int | None = None,
        cache: str | Path | None = None,
    ) -> None:
        self.augmentation = as_augmentation(augmentation)
        self.seed, self.n_classes = seed, n_classes
        # Shared memory: workers that live on through epochs see the new number too.
        self._epoch = torch.zeros(1, dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]
        self.prepared: Prepared | None = None
        self._position: dict[bytes, int] = {}
        if train is not None:
            x, y, groups = _training_set(train)
            task, classes = getattr(train, "task", None), getattr(train, "classes", None)
            n_classes = n_classes or (len(classes) if classes else None)
            self.prepared = self.augmentation.prepare(x, y, groups, task=task, n_classes=n_classes, cache=cache)
            self._position = {_digest(one): k for k, one in reversed(list(enumerate(x)))}

    @property
    def epoch(self) -> int:
        """Which epoch's plans are drawn."""
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Draw other plans from now on, in workers that are running too."""
        self._epoch.fill_(epoch)

    def __call__(self, samples: Sequence[Any]) -> tuple[Tensor, Tensor]:
        """Collate and augment."""
        if any(len(sample) != 2 for sample in samples):
            raise DataError("MixupCollate takes samples (network, label); another kind came: adapt the Dataset")
        x = torch.stack([torch.as_tensor(network) for network, _ in samples])
        if self.prepared is not None:
            mixed, labels = self._from_training_set(self.prepared, x)
        else:
            mixed, labels = self._within_batch(x, [label for _, label in samples])
        return mixed.to(x.dtype), labels.to(x.dtype)

    def _from_training_set(self, prepared: Prepared, x: Tensor) -> tuple[Tensor, Tensor]:
        found = [self._position.get(_digest(one)) for one in x]
        unknown = [k for k, position in enumerate(found) if position is None]
        if unknown:
            raise LeakageError(
                f"{len(unknown)} of {len(x)} networks of this batch are not in the training set given to MixupCollate "
                f"(at {named(unknown)}): do not augment validation or test data, and give train= the networks exactly "
                "as the DataLoader yields them"
            )
        positions = np.array(found, np.int64)
        key = (self.seed, "collate", self.epoch, *np.sort(positions).tolist())
        return prepared.apply(prepared.draw(positions, key))

    def _within_batch(self, x: Tensor, labels: list[Any]) -> tuple[Tensor, Tensor]:
        y = torch.stack([torch.as_tensor(label) for label in labels])
        if not y.is_floating_point() and self.n_classes is None:
            raise DataError(
                "without train=, MixupCollate cannot know how many classes there are: give n_classes=, or better train="
            )
        digests = [_digest(one) for one in x]
        order = sorted(range(len(x)), key=digests.__getitem__)
        content = hashlib.blake2b(b"".join(digests[k] for k in order), digest_size=8).hexdigest()
        seed = keys.word(self.seed, "collate", self.epoch, content)
        mixed, made = self.augmentation(x[order], y[order], seed, n_classes=self.n_classes)
        back = torch.argsort(torch.tensor(order))
        return mixed[back], made[back]


def _training_set(train: Any) -> tuple[Any, Any, Any]:
    """Networks, labels and groups of whatever was given."""
    if hasattr(train, "matrices"):
        return train.matrices, train.y, getattr(train, "groups", None)
    if isinstance(train, tuple) and len(train) in (2, 3):
        return (*train, None) if len(train) == 2 else train
    if hasattr(train, "__getitem__") and hasattr(train, "__len__"):
        samples = [train[k] for k in range(len(train))]
        x = torch.stack([torch.as_tensor(network) for network, _ in samples])
        return x, torch.stack([torch.as_tensor(label) for _, label in samples]), None
    raise DataError(
        "train= takes rmixup.Networks, (x, y), (x, y, groups) or a Dataset of (network, label), not "
        f"{type(train).__name__}"
    )


def _digest(network: Any) -> bytes:
    """The content of one network in float32, so that a copy in another precision is the same network."""
    values = torch.as_tensor(network).detach().to(device="cpu", dtype=torch.float32).contiguous().numpy()
    return hashlib.blake2b(values.tobytes(), digest_size=16).digest()
