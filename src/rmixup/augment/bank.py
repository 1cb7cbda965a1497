"""Banks: what a method needs to know of each single training network, computed once.

A bank has one row a network and nothing that is fitted across networks, so the runs of a study (folds, seeds) share
one. Its rows are matrices, or coordinates in which a geodesic is a straight line (the logarithms of rmixup), packed as
triangles. Everything is computed in float64, in chunks of bounded memory, and stored in the dtype of the networks.
May not be here: labels, chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import rmixup
from rmixup.augment.cache import Arrays, combined_sha256, remember
from rmixup.augment.labels import named
from rmixup.augment.paging import is_paged, release, take, tensor_of
from rmixup.augment.plan import Floats, Integers
from rmixup.errors import DataError, NotSPDError
from rmixup.spd.door import as_float, symmetrize, symmetry_tolerance
from rmixup.spd.repair import Regularizer
from rmixup.spd.spectral import eigh

# Float64 matrices worked on at once; a decomposition holds about five times as much.
CHUNK_BYTES = {"cpu": 2**24, "cuda": 2**28}
# A float32 matrix is known to about eps of its largest eigenvalue, a decomposition in float64 to n eps.
STORAGE_EPS = 2.0
# Rows compared at once when distances are taken.
DISTANCE_ROWS = 256


class Source(NamedTuple):
    """Networks to learn from: a tensor (all, n, n), of which only `rows` may be looked at, and where to compute."""

    x: Tensor
    rows: Integers
    device: torch.device

    @property
    def nodes(self) -> int:
        """Nodes of each network."""
        return self.x.shape[-1]

    def places(self) -> Iterator[slice]:
        """Yield chunks of places in `rows`."""
        size = max(1, CHUNK_BYTES.get(self.device.type, CHUNK_BYTES["cpu"]) // (8 * self.nodes**2))
        for first in range(0, len(self.rows), size):
            yield slice(first, min(first + size, len(self.rows)))

    def at(self, places: slice, dtype: torch.dtype | None) -> Tensor:
        """The matrices of some places, on the device."""
        rows = torch.from_numpy(self.rows[places]).to(self.x.device)
        return take(self.x, rows).to(self.device).to(dtype or self.x.dtype).contiguous()

    def chunks(self, dtype: torch.dtype | None = torch.float64) -> Iterator[tuple[slice, Tensor]]:
        """Yield places in `rows` and the matrices there."""
        if self.device.type == "cuda" and self.x.device.type == "cpu":
            for places, S in self._sent_ahead():
                yield places, S.to(dtype or self.x.dtype)
            return
        for places in self.places():
            yield places, self.at(places, dtype)

    def _sent_ahead(self) -> Iterator[tuple[slice, Tensor]]:
        """The matrices on a GPU: a thread reads and sends a chunk while the one before is worked on."""
        chunks = list(self.places())
        longest = max((places.stop - places.start for places in chunks), default=0)
        rooms = [torch.empty(longest, *self.x.shape[1:], dtype=self.x.dtype, pin_memory=True) for _ in range(2)]
        stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]

        def send(k: int) -> Tensor:
            rows = torch.from_numpy(self.rows[chunks[k]])
            room = rooms[k % 2][: len(rows)]
            if is_paged(self.x):
                room.copy_(take(self.x, rows))
            else:
                torch.index_select(self.x, 0, rows, out=room)
            with torch.cuda.stream(stream):
                sent = room.to(self.device, non_blocking=True)
            stream.synchronize()
            return sent

        with ThreadPoolExecutor(1) as reader:
            coming = [reader.submit(send, 0)] if chunks else []
            for k, places in enumerate(chunks):
                S = coming.pop().result()
                if k + 1 < len(chunks):
                    coming.append(reader.submit(send, k + 1))
                # Its memory belongs to the sending stream, but is used on this one.
                S.record_stream(torch.cuda.current_stream(self.device))
                yield places, S


@dataclass(frozen=True, eq=False)
class Bank:
    """One row a network.

    `values` is (N, n, n), or (N, n(n+1)/2) lower triangles; `index` (n²,) tells where in a triangle each entry of the
    matrix stands. `low` and `high` (N,) are the extreme eigenvalues of each row where known. `record` says what a
    regulariser did. Where `places` (N,) is given, row k of the bank is row places[k] of `values`.
    """

    values: Tensor
    nodes: int
    index: Tensor
    low: Floats | None = None
    high: Floats | None = None
    record: dict[str, Any] = field(default_factory=dict)
    places: Tensor | None = None

    def __len__(self) -> int:
        return len(self.values if self.places is None else self.places)

    def rows(self, at: Tensor) -> Tensor:
        """The matrices (B, n, n) of some rows."""
        return self._unpacked(self._take(at))

    def between(self, i: Tensor, j: Tensor, lam: Tensor) -> Tensor:
        """(1 - λ) rows i + λ rows j, as matrices (B, n, n); exact at λ = 0 and λ = 1."""
        weight = lam.view(-1, *[1] * (self.values.ndim - 1))
        if is_paged(self.values):  # a disk is the faster, the more it is asked for at once
            one, other = self._take(torch.cat([i, j])).tensor_split([len(i)])
        else:
            one, other = self._take(i), self._take(j)
        return self._unpacked(torch.lerp(one, other, weight))

    def distances(self, some: Tensor, others: Tensor, symmetric: bool) -> Tensor:
        """Distances (B, N), entry by entry, between some rows and others; lower triangles may stand for themselves."""
        weight = torch.ones(self.nodes, self.nodes, dtype=torch.float64, device=self.values.device).tril()
        if symmetric:
            weight = weight + weight.tril(-1)
        a = self._weighted(some, weight)
        squares = [
            (a**2).sum(1, keepdim=True) + (b**2).sum(1) - 2 * a @ b.T
            for b in (self._weighted(part, weight) for part in torch.split(others, DISTANCE_ROWS))
        ]
        return torch.cat(squares, 1).clamp(min=0).sqrt()

    def _take(self, rows: Tensor) -> Tensor:
        return take(self.values, rows if self.places is None else self.places[rows])

    def _weighted(self, rows: Tensor, weight: Tensor) -> Tensor:
        values = self._take(rows).double()
        return (pack(values) if values.ndim == 3 else values) * pack(weight).sqrt()

    def to(self, device: torch.device) -> Bank:
        """The same bank on another device."""
        return replace(self, values=self.values.to(device), index=self.index.to(device))

    def bounds(self, rows: Integers) -> tuple[float, float] | None:
        """Numbers that enclose the eigenvalues of these rows, and so of all their mixes."""
        if self.low is None or self.high is None or not np.isfinite(self.low).all():
            return None
        return float(self.low[rows].min()), float(self.high[rows].max())

    def _unpacked(self, values: Tensor) -> Tensor:
        if values.ndim == 3:
            return values
        return values.index_select(1, self.index).view(-1, self.nodes, self.nodes)


def triangle(nodes: int) -> Tensor:
    """The index (n²,) that unfolds a packed lower triangle into a symmetric matrix.

    >>> triangle(2)
    tensor([0, 1, 1, 2])
    """
    row, column = torch.tril_indices(nodes, nodes)
    index = torch.empty(nodes, nodes, dtype=torch.int64)
    index[row, column] = index[column, row] = torch.arange(len(row))
    return index.view(-1)


def pack(S: Tensor) -> Tensor:
    """The lower triangles (..., n(n+1)/2) of matrices (..., n, n).

    >>> pack(torch.tensor([[1.0, 2.0], [2.0, 3.0]]))
    tensor([1., 2., 3.])
    """
    row, column = torch.tril_indices(*S.shape[-2:], device=S.device)
    return S[..., row, column]


def matrices_of(x: Any) -> Tensor:
    """Networks as a tensor (N, n, n) that shares their memory; read-only arrays and memory maps are not copied."""
    if isinstance(x, np.ndarray) and x.dtype in (np.float32, np.float64) and x.dtype.isnative and x.flags.c_contiguous:
        tensor = tensor_of(x)
    else:
        tensor = as_float("x", x).detach()
    if tensor.ndim != 3 or tensor.shape[-1] != tensor.shape[-2] or 0 in tensor.shape:
        raise DataError(f"x must hold at least one network, shape (N, n, n), but has shape {tuple(tensor.shape)}")
    return tensor


def require_networks(source: Source) -> None:
    """Every matrix must be finite and symmetric, or all that are not are named."""
    infinite, crooked = [], []
    tolerance = symmetry_tolerance(source.x.dtype)
    for places, S in source.chunks(None):
        finite = S.isfinite().flatten(1).all(1)
        gap = (S - S.mT).abs().flatten(1).amax(1)
        straight = gap <= tolerance * S.abs().flatten(1).amax(1)
        rows = source.rows[places]
        infinite += rows[(~finite).cpu().numpy()].tolist()
        crooked += rows[(finite & ~straight).cpu().numpy()].tolist()
    problems = []
    if infinite:
        problems.append(
            f"x must be finite, but {len(infinite)} networks have NaN or infinite entries (at {named(infinite)}); "
            "leave these networks or the nodes without variance out"
        )
    if crooked:
        problems.append(
            f"x must be symmetric, but {len(crooked)} networks are not (at {named(crooked)}); if the symmetric part is "
            "meant, pass (x + x.swapaxes(1, 2)) / 2"
        )
    if problems:
        raise DataError(". ".join(problems))


def matrix_bank(source: Source) -> Bank:
    """The matrices themselves; no copy where all rows are asked for and are exactly symmetric."""
    x = source.x
    everything = len(source.rows) == len(x) and bool((source.rows == np.arange(len(x))).all())
    if is_paged(x) and source.device.type == "cpu" and all(torch.equal(S, S.mT) for _, S in source.chunks(None)):
        return Bank(x, source.nodes, triangle(source.nodes), places=torch.from_numpy(source.rows))
    values = x if everything else take(x, torch.from_numpy(source.rows).to(x.device))
    if any(not torch.equal(S, S.mT) for _, S in source.chunks(None)):
        values = symmetrize(values)
    return Bank(values, source.nodes, triangle(source.nodes).to(x.device)).to(source.device)


class Coordinates(NamedTuple):
    """Coordinates of some matrices: (B, n, n) of which the lower triangle is kept.

    `low` and `high` (B,) are their extreme eigenvalues, None where nobody needs them.
    """

    values: Tensor
    low: Tensor | None = None
    high: Tensor | None = None


Chart = Callable[[Tensor, Integers], Coordinates]
Close = Callable[[], dict[str, Any]]


class Ledger:
    """What a regulariser met and did while matrices came by, and which stayed singular."""

    def __init__(self, method: str, source: Source, regularizer: Regularizer | None) -> None:
        self.method, self.source, self.regularizer = method, source, regularizer
        self.changed, self.smallest = 0, float("inf")
        self.singular: list[int] = []

    def spectrum(self, S: Tensor, rows: Integers) -> tuple[Tensor, Tensor]:
        """Eigenvalues, regularised, and eigenvectors; notes what is not positive definite, which becomes I."""
        w, V = _eigh(S)
        regular = self._regularized(w)
        self.changed += int((regular != w).any(-1).sum())
        self.smallest = min(self.smallest, float(w.min()))
        bad = regular[:, 0] <= self.resolution * regular[:, -1].abs()
        self.singular += rows[bad.cpu().numpy()].tolist()
        return torch.where(bad[:, None], torch.ones_like(regular), regular), V

    def matrices(self, S: Tensor, rows: Integers) -> Tensor:
        """The matrices, regularised; only noted ones, and those that a regulariser touches, are put together anew."""
        known = len(self.singular)
        w, V = self.spectrum(S, rows)
        return S if self.regularizer is None and len(self.singular) == known else compose(V, w)

    @property
    def floor(self) -> float:
        """Eigenvalues below this are raised to it; 0 where none are."""
        return self.regularizer.amount if self.regularizer is not None and self.regularizer.how == "floor" else 0.0

    def shrunk(self, S: Tensor) -> Tensor:
        """The matrices under a regulariser that needs no eigenvalues, or whose floor they do not touch."""
        if self.regularizer is None or self.floor:
            return S
        mean = S.diagonal(dim1=1, dim2=2).mean(1)
        amount = self.regularizer.amount
        return (1 - amount) * S + torch.diag_embed((amount * mean)[:, None].expand(S.shape[:2]))

    def note(self, smallest_after: Tensor, S: Tensor) -> None:
        """Enter matrices that passed `shrunk`, from their smallest eigenvalue afterwards."""
        if not len(S):
            return
        before = smallest_after
        if self.regularizer is not None and not self.floor:
            amount = self.regularizer.amount
            before = (smallest_after - amount * S.diagonal(dim1=1, dim2=2).mean(1)) / max(1 - amount, 1e-300)
            self.changed += len(S)
        self.smallest = min(self.smallest, float(before.min()))

    def close(self) -> dict[str, Any]:
        """The record, or an error that names every matrix that is not positive definite."""
        nodes, total = self.source.nodes, len(self.source.rows)
        if self.singular:
            raise NotSPDError(
                f"{self.method} needs positive definite networks, but {len(self.singular)} of {total} are not (at "
                f"{named(self.singular)}; smallest eigenvalue {self.smallest:.2g}). A correlation of {nodes} nodes "
                f"from fewer than {nodes + 1} frames never is. Choose a regulariser, for example "
                "regularizer='shrink=0.05' or regularizer='floor=1e-6', use longer series, or use fewer nodes"
            )
        return {
            "regularizer": None if self.regularizer is None else str(self.regularizer),
            "changed": self.changed,
            "total": total,
            "smallest_before": self.smallest,
        }

    @property
    def resolution(self) -> float:
        """How small an eigenvalue can be told from none, relative to the largest."""
        rounding = self.source.nodes * torch.finfo(torch.float64).eps
        # A regulariser works in float64 on what is stored, so its result is known to rounding.
        stored = STORAGE_EPS * torch.finfo(self.source.x.dtype).eps if self.regularizer is None else 0.0
        return max(rounding, stored)

    def _regularized(self, w: Tensor) -> Tensor:
        """`spd.regularize`, done on the eigenvalues."""
        if self.regularizer is None:
            return w
        if self.regularizer.how == "floor":
            return w.clamp(min=self.regularizer.amount)
        return torch.lerp(w, w.mean(-1, keepdim=True).expand_as(w), self.regularizer.amount)


def _eigh(S: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors, computed on the CPU: at these sizes all its cores beat a GPU.

    One decomposition has little to share among cores, so each core gets matrices of its own.
    """
    cores = min(torch.get_num_threads(), len(S))
    if cores <= 1:
        return eigh(S)
    with ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(1,)) as threads:
        parts = list(threads.map(eigh, torch.tensor_split(S.cpu(), cores)))
    return torch.cat([w for w, _ in parts]).to(S.device), torch.cat([V for _, V in parts]).to(S.device)


def compose(V: Tensor, values: Tensor) -> Tensor:
    """V diag(values) Vᵀ, exactly symmetric.

    >>> compose(torch.eye(2), torch.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    product = (V * values[..., None, :]) @ V.mT
    return 0.5 * (product + product.mT)


def logarithms(w: Tensor, V: Tensor) -> Coordinates:
    """Matrix logarithms from eigenvalues (B, n), ascending, and eigenvectors."""
    logs = w.log()
    return Coordinates(compose(V, logs), logs[:, 0], logs[:, -1])


def coordinate_bank(
    source: Source,
    chart: Chart,
    close: Close,
    *,
    identity: str,
    cache: str | Path | None,
    dtype: torch.dtype | None = None,
) -> Bank:
    """Compute coordinates chunk by chunk, in memory or in a cache folder.

    Parameters
    ----------
    source : Source
    chart : function of float64 matrices (B, n, n) and their row numbers
    close : function called at the end; returns the record of what was done, or raises
    identity : str
        What determines the coordinates besides the matrices: method, regulariser, version.
    cache : folder or None
    dtype : of the result; None: that of the networks
    """
    n = source.nodes
    shape = (len(source.rows), n * (n + 1) // 2)
    stored = source.x.dtype if dtype is None else dtype

    def fill(values: Tensor) -> Arrays:
        low, high = np.full(len(source.rows), np.nan), np.full(len(source.rows), np.nan)
        for places, S in source.chunks():
            found = chart(S, source.rows[places])
            values[places] = pack(found.values).to(device=values.device, dtype=stored)
            release(values)
            if found.low is not None and found.high is not None:
                low[places], high[places] = found.low.cpu().numpy(), found.high.cpu().numpy()
        return {"low": low, "high": high, **{f"record_{k}": np.array(v) for k, v in close().items() if v is not None}}

    if cache is None:
        values = torch.empty(shape, dtype=stored, device=source.device)
        small = fill(values)
    else:
        kind = torch.empty(0, dtype=stored).numpy().dtype
        key = content_key(source, f"{identity}|{stored}")
        mapped, small = remember(cache, key, shape, kind, lambda values: fill(tensor_of(values)))
        values = tensor_of(mapped)
    record = {name.removeprefix("record_"): value.item() for name, value in small.items() if name.startswith("record_")}
    return Bank(values, n, triangle(n), small["low"], small["high"], record).to(source.device)


def content_key(source: Source, identity: str) -> str:
    """The hash of the matrices a bank is made of, and of what is made of them."""
    begin = f"rmixup {rmixup.__version__}|{identity}|{source.x.dtype}|{len(source.rows)}x{source.nodes}"
    here = Source(source.x, source.rows, source.x.device)
    return combined_sha256(lambda places: here.at(places, None).cpu().numpy(), here.places(), begin)
