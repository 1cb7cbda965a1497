"""The training of one stack: its state, a step, an epoch, its evaluation.

Everything that changes is a tensor made once and written in place, so that CUDA graphs recorded in the first epoch
serve all others, and so that a checkpoint is a dict of tensors. May not be here: how runs are put into stacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rmixup.augment.paging import take
from rmixup.models import Backbone
from rmixup.train.feed import Problem, Run, feed
from rmixup.train.graph import Recorded, aside
from rmixup.train.optimizer import Optimizer
from rmixup.train.protocol import Precision, Protocol
from rmixup.train.rows import Rows, gather_rows
from rmixup.train.stack import Stack
from rmixup.train.target import Target

Floats = npt.NDArray[np.float64]
# Networks evaluated at once by each run of a stack.
EVALUATED = 64


class Training:
    """R runs in training.

    Parameters
    ----------
    problem : Problem
    runs : R runs with training sets of one size
    built : their models
    protocol : Protocol
    device : torch.device
    """

    def __init__(
        self, problem: Problem, runs: Sequence[Run], built: Sequence[Backbone], protocol: Protocol, device: torch.device
    ) -> None:
        self.runs, self.protocol, self.device, self.done = list(runs), protocol, device, 0
        labels, dtype = problem.labels, problem.x.dtype
        self.stack = Stack([model.to(dtype) for model in built], device)
        self.feed = feed(problem, runs, device)
        self.target = Target(labels, [run.train for run in runs], device, dtype)
        self.validation = gather_rows(labels, [run.validation for run in runs], device, dtype)
        self.test = gather_rows(labels, [run.test for run in runs], device, dtype)
        steps = protocol.epochs * -(-self.feed.size // protocol.batch_size)
        self.optimizer = Optimizer(self.stack, runs, protocol, steps, device)
        self.selected_by, self._rate = self.target.selection(protocol.select, self.validation)
        self.best = self.stack.copy()
        self._goodness = torch.full((len(runs),), -torch.inf, dtype=dtype, device=device)
        self._best_epoch = torch.zeros(len(runs), dtype=torch.int64, device=device)
        self._loss = torch.zeros(len(runs), dtype=dtype, device=device)
        names = ["train_loss", "validation_loss", "validation_score"] + ["test_loss"] * protocol.watch_test
        self._curves = {name: self._loss.new_full((protocol.epochs, len(runs)), torch.nan) for name in names}
        self._x = problem.x.to(device)
        self._graphs: dict[int | str, Callable[[Tensor], Any]] = {}
        self._drawn: tuple[int, list[npt.NDArray[np.int64]]] = (-1, [])

    # ---- training -----------------------------------------------------------------------------------------------

    def epoch(self) -> None:
        """Train one epoch, evaluate it and keep the parameters of the runs that got better; never waits for a GPU."""
        self._loss.zero_()
        for table in self._tables():
            step = self._step(table.shape[1])
            for row in self._upload(table):
                self.optimizer.schedule()
                step(row)
        self._curves["train_loss"][self.done] = self._loss / self.feed.size
        self._evaluate()
        self.done += 1
        if self.device.type == "cuda" and self.done < self.protocol.epochs:
            # Drawn while the GPU works, and before anybody waits for it.
            self._drawn = self.done, self.feed.epoch(self.done, self.protocol.batch_size)

    def _tables(self) -> list[npt.NDArray[np.int64]]:
        epoch, tables = self._drawn
        return tables if epoch == self.done else self.feed.epoch(self.done, self.protocol.batch_size)

    def rehearse(self) -> None:
        """Take each kind of step once and forget what it did: libraries set themselves up, memory can be measured."""
        before, moments = self.stack.copy(), {k: v.clone() for k, v in self.optimizer.state().items()}
        for table in self.feed.epoch(0, self.protocol.batch_size):
            self._train_step(self._upload(table[:1])[0])
        for rows in (self.validation, self.test):
            self._forward(rows)
        self.stack.load(before)
        self.optimizer.restore(moments)
        self._loss.zero_()

    def now(self) -> tuple[Floats, Floats]:
        """Training loss and validation score (R,) of the epoch just done."""
        loss, score = (self._curves[name][self.done - 1] for name in ("train_loss", "validation_score"))
        return loss.double().cpu().numpy(), score.double().cpu().numpy()

    def curves(self) -> dict[str, Floats]:
        """Curves (epochs done, R) by name."""
        return {name: values[: self.done].double().cpu().numpy() for name, values in self._curves.items()}

    def _train_step(self, row: Tensor) -> None:
        self._learn(*self._make(row))

    def _make(self, row: Tensor) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
        with products(self.protocol.precision):
            return self.feed.make(row)

    def _learn(self, x: Tensor, y: Tensor, weights: Tensor | None, words: Tensor) -> None:
        with lowered(self.protocol.precision, self.device):
            outputs = self.stack(x, words).to(x.dtype)
            loss = self.target.loss(outputs, y, weights)
            gradients = torch.autograd.grad(loss.sum(), list(self.stack.parameters.values()))
        self.optimizer.step(gradients)
        self._loss += loss.detach() * x.shape[1]

    def _step(self, width: int) -> Callable[[Tensor], Any]:
        """The step for rows of one width: recorded on a GPU, plain elsewhere."""
        if self.device.type != "cuda":
            return self._train_step
        if not self._graphs:
            aside(self.rehearse)
        if width not in self._graphs:
            self._graphs[width] = self._record_step(torch.zeros(width, dtype=torch.int64, device=self.device))
        return self._graphs[width]

    def _record_step(self, row: Tensor) -> Callable[[Tensor], Any]:
        if self.feed.capturable:
            return Recorded(self._train_step, row)
        # A mix that looks at its matrices is made beforehand; the recorded rest reads it from a fixed place.
        made = self._make(row)
        rest = Recorded(lambda _: self._learn(*made), row)

        def step(row: Tensor) -> None:
            for place, part in zip(made, self._make(row), strict=True):
                if place is not None and part is not None:
                    place.copy_(part)
            rest(row)

        return step

    def _upload(self, table: npt.NDArray[np.int64]) -> Tensor:
        rows = torch.from_numpy(table)
        return rows.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else rows

    # ---- evaluation ---------------------------------------------------------------------------------------------

    def outputs(self) -> list[tuple[Floats, Floats]]:
        """Of each run, what it predicts for its validation and its test networks, in the labels' own units."""
        found = []
        for rows in (self.validation, self.test):
            values = self.target.decode(self._forward(rows)).cpu().numpy()
            found.append([values[r, :count] for r, count in enumerate(rows.counts)])
        return list(zip(*found, strict=True))

    def choose(self) -> npt.NDArray[np.int64]:
        """Go back to each run's best parameters; return their epochs, counted from 1.

        Runs without validation networks, or whose score never was finite, stay at the last epoch.
        """
        never = self._best_epoch == 0
        self.stack.keep(self.best, never)
        self.stack.load(self.best)
        return torch.where(never, self.done, self._best_epoch).cpu().numpy()

    def _evaluate(self) -> None:
        if self.validation.width:
            outputs = self._forward_recorded("validation", self.validation)
            loss = self.target.evaluate(outputs, self.validation)
            score, goodness = self._rate(outputs, self.validation, loss)
            better = goodness > self._goodness
            self._goodness.copy_(torch.where(better, goodness, self._goodness))
            self._best_epoch.masked_fill_(better, self.done + 1)
            self.stack.keep(self.best, better)
            self._curves["validation_loss"][self.done] = loss
            self._curves["validation_score"][self.done] = score
        if self.protocol.watch_test and self.test.width:
            outputs = self._forward_recorded("test", self.test)
            self._curves["test_loss"][self.done] = self.target.evaluate(outputs, self.test)

    def _forward_recorded(self, name: str, rows: Rows) -> Tensor:
        if self.device.type != "cuda":
            return self._forward(rows)
        nothing = torch.zeros(1, dtype=torch.int64, device=self.device)
        if name not in self._graphs:
            self._graphs[name] = Recorded(lambda _: self._forward(rows), nothing)
        outputs: Tensor = self._graphs[name](nothing)
        return outputs

    @torch.no_grad()
    def _forward(self, rows: Rows) -> Tensor:
        """Outputs (R, V, k) for rows, some at a time."""
        with lowered(self.protocol.precision, self.device):
            parts = [
                self.stack(take(self._x, at.reshape(-1)).view(*at.shape, *self._x.shape[1:])).to(self._x.dtype)
                for at in torch.split(rows.index, EVALUATED, dim=1)
            ]
        return torch.cat(parts, 1) if rows.width else self._x.new_empty(len(self.runs), 0, self.target.outputs)

    # ---- checkpoints --------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """Everything that changes, as tensors by name: going on from here equals not having stopped."""
        parts = {
            "parameters": self.stack.parameters,
            "best": self.best,
            "optimizer": self.optimizer.state(),
            "curves": self._curves,
            "at": {"done": torch.tensor(self.done), "score": self._goodness, "epoch": self._best_epoch},
        }
        return {f"{part}/{name}": value.detach() for part, values in parts.items() for name, value in values.items()}

    @torch.no_grad()
    def load(self, state: dict[str, Tensor]) -> None:
        """Take over a state."""
        self.optimizer.load({k.removeprefix("optimizer/"): v for k, v in state.items() if k.startswith("optimizer/")})
        for name, value in self.state().items():
            if not name.startswith("optimizer/"):
                value.copy_(state[name])
        self.done = int(state["at/done"])


@contextmanager
def products(precision: Precision) -> Iterator[None]:
    """Multiply matrices in the precision that was asked for."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest" if precision == "fp32" else "high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def lowered(precision: Precision, device: torch.device) -> Iterator[None]:
    """Compute in the precision that was asked for."""
    with products(precision), torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext():
        yield
