"""CUDA graphs: a call recorded once and replayed, so that the host's part of a step is one launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class Recorded:
    """`call(row)` for rows of one width. The row is copied to a fixed place that the recording reads.

    The call must have run before (libraries set themselves up at first use), must not wait for the device, and must
    write its results into tensors that stay.
    """

    def __init__(self, call: Callable[[Tensor], Any], row: Tensor) -> None:
        self._row = row.clone()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self.result = call(self._row)

    def __call__(self, row: Tensor) -> Any:
        """Replay; what the call returned lies at the same place each time."""
        self._row.copy_(row)
        self._graph.replay()
        return self.result


def aside(call: Callable[[], Any]) -> None:
    """Run a call on a side stream, as recording asks for the first time."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
    torch.cuda.current_stream().wait_stream(stream)
