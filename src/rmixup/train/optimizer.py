"""torch's Adam over a stack: each run may have its own learning rate and weight decay.

torch's optimisers know one learning rate a group of parameters, so the stack is cut into views of neighbouring runs
with the same settings. May not be here: arithmetic of an optimiser.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from rmixup.train.feed import Run
from rmixup.train.protocol import Protocol, rate
from rmixup.train.stack import Stack

_KINDS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
_FUSED_ON = ("cpu", "cuda")


class Optimizer:
    """Adam with L2, or AdamW, of the runs of a stack."""

    def __init__(self, stack: Stack, runs: Sequence[Run], protocol: Protocol, steps: int, device: torch.device) -> None:
        self._schedule, self._steps, self._taken = protocol.schedule, steps, 0
        self._cuts, self._views, groups = [], [], []
        for (learning_rate, weight_decay), cut in _alike(runs, protocol):
            views = [value.detach()[cut] for value in stack.parameters.values()]
            groups.append({"params": views, "lr": learning_rate, "weight_decay": weight_decay})
            self._cuts.append(cut)
            self._views.append(views)
        options: dict[str, Any] = {"fused": device.type in _FUSED_ON, "capturable": device.type == "cuda"}
        self._adam = _KINDS[protocol.optimizer](groups, lr=protocol.learning_rate, **options)
        self._rates = [float(group["lr"]) for group in self._adam.param_groups]
        if device.type == "cuda":  # a recorded step reads its learning rate from the device
            for group, value in zip(self._adam.param_groups, self._rates, strict=True):
                group["lr"] = torch.tensor(value, device=device)

    def schedule(self) -> None:
        """Set the learning rate of the step that comes next."""
        if self._schedule != "constant":
            share = rate(self._schedule, self._taken, self._steps)
            for group, value in zip(self._adam.param_groups, self._rates, strict=True):
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(value * share)
                else:
                    group["lr"] = value * share
        self._taken += 1

    def step(self, gradients: Sequence[Tensor]) -> None:
        """Move the parameters."""
        for cut, views in zip(self._cuts, self._views, strict=True):
            for view, gradient in zip(views, gradients, strict=True):
                # The fused kernels read memory in order, and a stack's gradients may come transposed.
                view.grad = gradient[cut].contiguous()
        self._adam.step()

    def state(self) -> dict[str, Tensor]:
        """Everything that changes but the learning rate, as tensors by name."""
        found = {
            f"{group}.{place}.{name}": value
            for group, views in enumerate(self._views)
            for place, view in enumerate(views)
            for name, value in self._adam.state[view].items()
        }
        return found | {"taken": torch.tensor(self._taken)}

    def load(self, state: dict[str, Tensor]) -> None:
        """Take over a state, in place where there is one already."""
        self._taken = int(state["taken"])
        for group, views in enumerate(self._views):
            for place, view in enumerate(views):
                begin = f"{group}.{place}."
                for name in [name for name in state if name.startswith(begin)]:
                    own = self._adam.state[view].setdefault(name.removeprefix(begin), torch.empty_like(state[name]))
                    own.copy_(state[name])

    def restore(self, state: dict[str, Tensor]) -> None:
        """Back to an earlier state, in place; what that did not have yet becomes zero, as Adam begins."""
        for views in self._views:
            for view in views:
                for value in self._adam.state[view].values():
                    value.zero_()
        self.load(state)


def _alike(runs: Sequence[Run], protocol: Protocol) -> list[tuple[tuple[float, float], slice]]:
    """Neighbouring runs with the same settings."""
    settings = [
        (
            protocol.learning_rate if run.learning_rate is None else run.learning_rate,
            protocol.weight_decay if run.weight_decay is None else run.weight_decay,
        )
        for run in runs
    ]
    found, start = [], 0
    for setting, members in groupby(settings):
        stop = start + len(list(members))
        found.append((setting, slice(start, stop)))
        start = stop
    return found
