"""The Transformer's fused kernels against torch's own operations in float64, on a GPU or in Triton's interpreter.

The interpreter needs no GPU but Triton: TRITON_INTERPRET=1 pytest tests/models/test_fused.py
"""

import os
from typing import NamedTuple

import pytest
import torch

from rmixup import models
from rmixup.models import fused
from rmixup.train.stack import Stack

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")

pytestmark = (
    pytest.mark.gpu
    if torch.cuda.is_available()
    else pytest.mark.skipif(not INTERPRETED, reason="needs a CUDA device, or Triton and TRITON_INTERPRET=1")
)


@pytest.fixture(autouse=True)
def _kernels_are_there() -> None:
    assert fused.kernels is not None, "Triton is missing"


def serving(monkeypatch: pytest.MonkeyPatch, on: bool) -> None:
    if not on:
        monkeypatch.setattr(fused, "serves", lambda x: False)
    elif INTERPRETED:
        monkeypatch.setattr(fused, "serves", lambda x: bool(x.numel()))


def results(built, x, words, dtype: torch.dtype) -> list[torch.Tensor]:
    stack = Stack([model.to(dtype) for model in built], DEVICE)
    given = x.to(DEVICE, dtype).requires_grad_()
    outputs = stack(given, words.to(DEVICE))
    weights = torch.linspace(-1, 2, outputs.numel(), device=DEVICE, dtype=dtype).view_as(outputs)
    gradients = torch.autograd.grad((outputs * weights).sum(), [given, *stack.parameters.values()])
    return [outputs.detach(), stack(given.detach()).detach(), *gradients]


class Case(NamedTuple):
    n: int
    heads: int
    runs: int
    samples: int
    dropout: float
    feedforward: int


def made(case: Case):
    options = {"heads": case.heads, "feedforward": case.feedforward, "dropout": case.dropout}
    built = [models.build("transformer", case.n, 2, seed, **options) for seed in range(case.runs)]
    shape = (case.runs, case.samples, case.n, case.n)
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(case.n))
    return built, 0.3 * (drawn + drawn.mT), torch.arange(5, 5 + case.runs)


@pytest.mark.parametrize(
    "case",
    [
        Case(20, 4, 2, 2, 0.3, 24),  # heads of five, padded to eight
        Case(21, 3, 1, 3, 0.3, 70),  # one run; nothing is a multiple of four
        Case(37, 1, 3, 2, 0.0, 130),  # no dropout
        Case(70, 2, 2, 1, 0.1, 33),  # two tiles, one network
    ],
)
def test_values_and_gradients_are_those_of_torch(monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    built, x, words = made(case)
    serving(monkeypatch, on=False)
    exact = results(built, x, words, torch.float64)
    monkeypatch.undo()
    serving(monkeypatch, on=True)
    for ours, theirs in zip(results(built, x, words, torch.float32), exact, strict=True):
        assert (ours - theirs).norm() <= 2e-6 * theirs.norm()


def test_a_run_alone_gets_what_it_gets_in_a_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    serving(monkeypatch, on=True)
    built, x, words = made(Case(33, 4, 3, 4, 0.2, 40))
    together = results(built, x, words, torch.float32)
    for r in range(3):
        alone = results(built[r : r + 1], x[r : r + 1], words[r : r + 1], torch.float32)
        torch.testing.assert_close(alone[0], together[0][r : r + 1], rtol=1e-5, atol=1e-6)


def test_small_other_and_empty_networks_are_left_to_torch() -> None:
    x = torch.zeros(2, 20, 20, device=DEVICE)
    assert fused.serves(x) == x.is_cuda
    assert not fused.serves(x[:, :8])
    assert not fused.serves(x[:0])
    assert not fused.serves(x.double())
    with torch.autocast(DEVICE.type, torch.bfloat16):
        assert not fused.serves(x)
