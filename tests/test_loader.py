"""MixupCollate inside PyTorch, Lightning and skorch loops; the same stream with any number of workers."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset, TensorDataset

import rmixup
from rmixup import DataError, LeakageError, MixupCollate, Networks, keys
from rmixup.augment import RMixup

N, NODES = 22, 6


@pytest.fixture(scope="module")
def x() -> Tensor:
    series = keys.generator(0, "loader").standard_normal((N, 40, NODES))
    x = np.stack([np.corrcoef(one.T) for one in series])
    return torch.from_numpy(0.5 * (x + x.swapaxes(1, 2))).float()


@pytest.fixture(scope="module")
def y() -> Tensor:
    return torch.arange(N) % 3


def stream(loader: DataLoader[object]) -> list[Tensor]:
    return [tensor for batch in loader for tensor in batch]


def equal(a: list[Tensor], b: list[Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(one, other) for one, other in zip(a, b, strict=True))


@pytest.mark.parametrize("inside", [False, True])
def test_any_number_of_workers_gives_the_same_stream(x: Tensor, y: Tensor, inside: bool) -> None:
    train = TensorDataset(x, y)
    collate = MixupCollate("rmixup", None if inside else train, seed=3, n_classes=3)
    streams = [stream(DataLoader(train, batch_size=5, collate_fn=collate, num_workers=k)) for k in (0, 2)]
    assert equal(*streams)
    assert [tensor.shape[0] for tensor in streams[0][::2]] == [5, 5, 5, 5, 2]
    assert streams[0][1].shape == (5, 3)


def test_workers_that_live_on_hear_of_a_new_epoch(x: Tensor, y: Tensor) -> None:
    train = TensorDataset(x, y)
    collate = MixupCollate("vmixup", train)
    lasting = DataLoader(train, batch_size=6, collate_fn=collate, num_workers=1, persistent_workers=True)
    plain = DataLoader(train, batch_size=6, collate_fn=collate)
    first = stream(lasting)
    collate.set_epoch(1)
    assert collate.epoch == 1
    second = stream(lasting)
    assert not equal(first, second)
    assert equal(second, stream(plain))
    collate.set_epoch(0)
    assert equal(first, stream(plain))


def test_it_is_pickled_and_copied(x: Tensor, y: Tensor) -> None:
    collate = MixupCollate(RMixup(per="pair"), (x, y), seed=1)
    collate.set_epoch(4)
    batch = [(x[k], y[k]) for k in (3, 1)]
    copy = pickle.loads(pickle.dumps(collate))  # noqa: S301 -- our own bytes
    assert copy.epoch == 4
    assert equal([*copy(batch)], [*collate(batch)])


def test_a_batch_is_the_prepared_plan_of_its_positions(x: Tensor, y: Tensor) -> None:
    collate = MixupCollate("rmixup", (x.double(), y), seed=9)
    made, labels = collate([(x[k], y[k]) for k in (7, 2, 5)])
    prepared = RMixup().prepare(x.double(), y)
    expected = prepared.apply(prepared.draw([7, 2, 5], (9, "collate", 0, 2, 5, 7)))
    assert made.dtype == labels.dtype == torch.float32
    torch.testing.assert_close(made, expected[0].float())
    torch.testing.assert_close(labels, expected[1].float())
    turned = collate([(x[k], y[k]) for k in (2, 5, 7)])
    assert torch.equal(turned[0][[2, 0, 1]], made)


def test_within_a_batch_the_order_does_not_matter(x: Tensor) -> None:
    collate = MixupCollate(RMixup(per="pair"), seed=9)
    batch = [(x[k], float(k)) for k in (7, 2, 5, 11)]
    made, labels = collate(batch)
    turned, turned_labels = collate(batch[::-1])
    assert torch.equal(turned.flip(0), made)
    assert torch.equal(turned_labels.flip(0), labels)
    assert labels.dtype == torch.float32


def test_validation_networks_are_refused(x: Tensor, y: Tensor) -> None:
    collate = MixupCollate("rmixup", (x[:15], y[:15]))
    loader = DataLoader(TensorDataset(x, y), batch_size=11, collate_fn=collate)
    batches = iter(loader)
    assert next(batches)[0].shape == (11, NODES, NODES)
    with pytest.raises(LeakageError, match="7 of 11 networks of this batch are not in the training set"):
        next(batches)


def test_partners_come_from_the_subset_that_was_given(x: Tensor, y: Tensor) -> None:
    rows = [1, 4, 9, 16, 20, 5]
    subset = Subset(TensorDataset(x, y.double()), rows)
    collate = MixupCollate("vmixup", subset)
    assert collate.prepared is not None
    assert torch.equal(collate.prepared.bank.values, x[rows])
    assert len(stream(DataLoader(subset, batch_size=4, shuffle=True, collate_fn=collate))) == 4


def test_networks_with_groups_and_targets(x: Tensor) -> None:
    ds = Networks(x.double().numpy(), np.linspace(5, 60, N), groups=["s", "t"] * (N // 2))
    collate = rmixup.MixupCollate(RMixup(pairs="cross-group"), ds)
    _, labels = collate([(x[0], 5.0)])
    assert labels.shape == (1,)
    named = Networks(x.double().numpy(), (["b", "a"] * N)[:N], classes=("a", "b", "c"))
    made, labels = MixupCollate("rmixup", named)([(x[0].double(), 1), (x[1].double(), 0)])
    assert labels.shape == (2, 3)
    assert made.dtype == torch.float64
    two = MixupCollate("vmixup", (x, np.arange(2.0 * N).reshape(N, 2), ["s", "t"] * (N // 2)))
    assert two([(x[3], [6.0, 7.0])])[1].shape == (1, 2)


def test_what_cannot_be_collated_is_said(x: Tensor, y: Tensor) -> None:
    with pytest.raises(DataError, match="give n_classes="):
        MixupCollate("rmixup")([(x[0], y[0]), (x[1], y[1])])
    with pytest.raises(DataError, match=r"samples \(network, label\)"):
        MixupCollate("rmixup", (x, y))([(x[0], y[0], 3)])
    with pytest.raises(DataError, match="train= takes"):
        MixupCollate("rmixup", 5)


class Net(nn.Sequential):
    def __init__(self, outputs: int = 3) -> None:
        super().__init__(nn.Flatten(), nn.Linear(NODES**2, outputs))


def batches(x: Tensor, y: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    train = TensorDataset(x, y)
    collate = MixupCollate("rmixup", train)
    loader = DataLoader(train, batch_size=8, shuffle=True, collate_fn=collate)
    for epoch in range(15):
        collate.set_epoch(epoch)
        yield from loader


@pytest.mark.parametrize(("labels", "loss"), [("classes", nn.CrossEntropyLoss()), ("numbers", nn.MSELoss())])
def test_in_a_plain_loop(x: Tensor, y: Tensor, labels: str, loss: nn.Module) -> None:
    torch.manual_seed(0)
    y = y if labels == "classes" else x[:, 0, 1].double()
    net = Net(3) if labels == "classes" else nn.Sequential(Net(1), nn.Flatten(0))
    optimizer = torch.optim.Adam(net.parameters(), 0.03)
    losses = []
    for networks, targets in batches(x, y):
        optimizer.zero_grad()
        value = loss(net(networks), targets)
        value.backward()
        optimizer.step()
        losses.append(float(value.detach()))
    assert np.mean(losses[-5:]) < 0.9 * np.mean(losses[:3])


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
def test_in_a_lightning_loop(x: Tensor, y: Tensor, tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning")
    train = TensorDataset(x, y)
    collate = MixupCollate("rmixup", train)
    seen: list[tuple[int, Tensor]] = []

    class Module(lightning.LightningModule):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def on_train_epoch_start(self) -> None:
            collate.set_epoch(self.current_epoch)

        def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
            seen.append((self.current_epoch, batch[0]))
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), 0.01)

    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(Module(), DataLoader(train, batch_size=11, collate_fn=collate))
    assert [epoch for epoch, _ in seen] == [0, 0, 1, 1]
    assert not torch.equal(seen[0][1], seen[2][1])


def test_in_a_skorch_net(x: Tensor, y: Tensor) -> None:
    skorch = pytest.importorskip("skorch")
    net = skorch.NeuralNetClassifier(
        Net, criterion=nn.CrossEntropyLoss, max_epochs=25, lr=0.3, train_split=None, verbose=0, batch_size=8,
        iterator_train__collate_fn=MixupCollate("rmixup", (x, y)), iterator_train__shuffle=True,
    )  # fmt: skip
    torch.manual_seed(0)
    net.fit(x, y)
    history = net.history[:, "train_loss"]
    assert history[-1] < history[0]
    assert net.predict_proba(x.numpy()).shape == (N, 3)
