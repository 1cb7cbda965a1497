"""check_augmentation passes what is in the package and names what is wrong in others."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from rmixup.augment import METHODS, PAIRS, Augmentation, Batch, Mixing, Nearest, Prepared, RMixup, as_augmentation
from rmixup.spd.metrics import METRICS
from rmixup.testing import check_augmentation


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("published", [False, True])
def test_every_method_keeps_the_contract(name: str, published: bool) -> None:
    settings = {"published": True} if published and name != "none" else {}
    check_augmentation(as_augmentation(name, **settings), symmetric=not (settings and name in ("dmixup", "dropedge")))
    if "alpha" in as_augmentation(name).parameters():
        check_augmentation(as_augmentation(name, per="pair"))


@pytest.mark.parametrize("metric", METRICS)
def test_every_geometry_keeps_the_contract(metric: str) -> None:
    check_augmentation(RMixup(metric=metric))
    check_augmentation(RMixup(metric=metric, unit_diagonal=True))


@pytest.mark.parametrize("pairs", [name for name in PAIRS if name not in ("same-class", "nearest")])
def test_every_policy_keeps_the_contract(pairs: str) -> None:
    check_augmentation(RMixup(pairs=pairs))
    check_augmentation(RMixup(pairs=Nearest(2)))


@dataclass(frozen=True, kw_only=True)
class Wrong(Mixing):
    name = "wrong"


class Impure(Wrong):
    def mix(self, prepared: Prepared, batch: Batch) -> Tensor:
        return prepared.between(batch) + torch.rand(()).to(prepared.y.dtype)


class Crooked(Wrong):
    def mix(self, prepared: Prepared, batch: Batch) -> Tensor:
        return prepared.between(batch).tril()


class Small(Wrong):
    def mix(self, prepared: Prepared, batch: Batch) -> Tensor:
        return prepared.between(batch)[:, 1:, 1:]


class Single(Wrong):
    def mix(self, prepared: Prepared, batch: Batch) -> Tensor:
        return prepared.between(batch).to(torch.float32)


class InPlace(Wrong):
    def mix(self, prepared: Prepared, batch: Batch) -> Tensor:
        return prepared.bank.values.mul_(0.5).index_select(0, prepared.rows[batch.i])


class Infinite(Wrong):
    def mix(self, prepared: Prepared, batch: Batch) -> Tensor:
        return prepared.between(batch) / 0


class Forgetful(Wrong):
    def draws(self, i, partners, rng):  # type: ignore[no-untyped-def]
        return super().draws(i, partners, np.random.default_rng())

    def mix(self, prepared: Prepared, batch: Batch) -> Tensor:
        return prepared.between(batch)


class Fixed(Wrong):
    def draws(self, i, partners, rng):  # type: ignore[no-untyped-def]
        return super().draws(i, partners, np.random.default_rng(0))

    def mix(self, prepared: Prepared, batch: Batch) -> Tensor:
        return prepared.between(batch)


class Alone(Wrong):
    def fit(self, training):  # type: ignore[no-untyped-def]
        return {"mean": torch.from_numpy(training.labels.mixable()).mean()}

    def mix(self, prepared: Prepared, batch: Batch) -> Tensor:
        return prepared.between(batch) * (1 + len(prepared.fitted["mean"]))


class Leaky(Wrong):
    def fit(self, training):  # type: ignore[no-untyped-def]
        return {"mean": training.source.x.nansum()}

    def mix(self, prepared: Prepared, batch: Batch) -> Tensor:
        return prepared.between(batch) * prepared.fitted["mean"][0]


class Unready(Wrong):
    def fit(self, training):  # type: ignore[no-untyped-def]
        raise RuntimeError("not today")

    def mix(self, prepared: Prepared, batch: Batch) -> Tensor:
        return prepared.between(batch)


class Unlabelled(Augmentation):
    name = "unlabelled"

    def mix(self, prepared: Prepared, batch: Batch) -> Tensor:
        return prepared.first(batch)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (Impure, "applying a plan twice gives different results"),
        (Impure, "chance is drawn from a global generator"),
        (Crooked, "not symmetric"),
        (Small, "expected networks of shape"),
        (Single, "expected the dtype"),
        (InPlace, "were changed"),
        (Infinite, "not finite"),
        (Forgetful, "the same key gives different plans"),
        (Fixed, "another key gives the same plan"),
        (Alone, "joined runs give other results"),
        (Leaky, "networks outside the training rows have an influence"),
        (Unready, "cannot be prepared with classes: RuntimeError: not today"),
    ],
)
def test_what_breaks_the_contract_is_named(method: type[Wrong], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_augmentation(method())


def test_ones_own_method_takes_one_function() -> None:
    check_augmentation(Unlabelled())
