"""R runs of one backbone as one model: every parameter once, with a leading dimension of R.

May not be here: data, losses, loops.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from rmixup.errors import DataError
from rmixup.models import Backbone

State = dict[str, Tensor]


class Stack:
    """The parameters of R models of one kind, and their common forward.

    Parameters
    ----------
    models : R backbones of one class and size
    device : where the parameters go

    >>> from rmixup.models import build
    >>> stack = Stack([build("mlp", 4, 2, seed=s, hidden=(3,)) for s in (0, 1)], torch.device("cpu"))
    >>> stack(torch.zeros(2, 5, 4, 4)).shape
    torch.Size([2, 5, 2])
    """

    def __init__(self, models: Sequence[Backbone], device: torch.device) -> None:
        first = models[0]
        if len(models) > 1 and not first.stackable:
            raise DataError(f"{type(first).__name__} cannot be stacked; train its runs one after another")
        self.runs = len(models)
        stacked, buffers = stack_module_state(list[nn.Module](models))
        self.parameters: State = {k: v.detach().to(device).requires_grad_() for k, v in stacked.items()}
        self._buffers: State = {k: v.to(device) for k, v in buffers.items()}
        self._module = copy.deepcopy(first).to("meta") if first.stackable else copy.deepcopy(first).to(device)

    def __call__(self, x: Tensor, words: Tensor | None = None) -> Tensor:
        """Map networks (R, B, n, n), with a word a run for dropout, to outputs (R, B, n_outputs)."""
        if self.runs == 1:  # without vmap, which costs a little; squeeze and unsqueeze are free
            alone = {k: v.squeeze(0) for k, v in (self.parameters | self._buffers).items()}
            return self._forward(alone, x.squeeze(0), None if words is None else words.squeeze(0)).unsqueeze(0)
        in_dims = (0, 0, None if words is None else 0)
        out: Tensor = vmap(self._forward, in_dims=in_dims)(self.parameters | self._buffers, x, words)
        return out

    def _forward(self, state: State, x: Tensor, word: Tensor | None) -> Tensor:
        out: Tensor = functional_call(self._module, state, (x, word))
        return out

    def state(self, run: int) -> State:
        """What one run's outputs depend on: its parameters, and the numbers beside them (bases of orthogonal maps)."""
        beside = {k: v for k, v in self._buffers.items() if v.is_floating_point()}
        return {k: v[run].detach().cpu().clone() for k, v in (self.parameters | beside).items()}

    def copy(self) -> State:
        """The parameters as they are now."""
        return {k: v.detach().clone() for k, v in self.parameters.items()}

    @torch.no_grad()
    def load(self, state: State) -> None:
        """Take over parameters, in place: captured graphs go on to see them."""
        for name, parameter in self.parameters.items():
            parameter.copy_(state[name])

    @torch.no_grad()
    def keep(self, best: State, better: Tensor) -> None:
        """Overwrite `best` with the parameters of the runs that `better` (R,) marks, without a look at the device."""
        for name, parameter in self.parameters.items():
            best[name].copy_(torch.where(better.view(-1, *[1] * (parameter.ndim - 1)), parameter, best[name]))
