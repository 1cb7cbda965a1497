"""The door of `rmixup.spd`: what comes in is checked once, here, and goes out as it came.

`enter` turns NumPy arrays and torch tensors into real, square, finite, exactly symmetric float tensors, or names
every matrix that is not one; `leave` gives NumPy to whoever brought NumPy. What may not be here: geometry.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from torch import Tensor

from rmixup.errors import DataError

# Two mirror entries may differ by this much of the matrix's largest entry: sqrt(eps) is 3.5e-4 in float32 and
# 1.5e-8 in float64, far above what summation order does and far below what a real asymmetry looks like.
SYMMETRY_POWER_OF_EPS = 0.5
# More broken matrices than this are counted, not listed.
LISTED = 5
FLOATS = (torch.float32, torch.float64)


class Entered(NamedTuple):
    """What `enter` returns: the tensors in the order given, and whether `leave` has to give NumPy."""

    tensors: tuple[Tensor, ...]
    numpy: bool


def enter(**matrices: Any) -> Entered:
    """Check (..., n, n) arrays under the names the caller knows them by.

    Parameters
    ----------
    matrices : NumPy arrays (or nested lists) or torch tensors, float32 or float64, each (..., n, n)
        All with one n, on one device, with leading shapes that broadcast. The wider dtype wins.

    Returns
    -------
    Entered, whose tensors are exactly symmetric. Gradients flow through a torch tensor that asks for them.

    >>> (S,), numpy = enter(S=np.eye(3))
    >>> S.shape, numpy
    (torch.Size([3, 3]), True)
    >>> enter(S=np.array([[1.0, 0.5], [0.1, 1.0]]))
    Traceback (most recent call last):
    rmixup.errors.DataError: S must be symmetric: the matrix has 0.5 at [0, 1] but 0.1 at [1, 0]; ...
    """
    numpy = not any(isinstance(value, Tensor) for value in matrices.values())
    tensors = {name: as_float(name, value) for name, value in matrices.items()}
    _raise_all([problem for name, S in tensors.items() for problem in _wrong_shape(name, S)])
    _raise_all(list(_do_not_fit(tensors)))
    _raise_all([problem for name, S in tensors.items() for problem in _wrong_values(name, S)])
    dtype = torch.float64 if any(S.dtype == torch.float64 for S in tensors.values()) else torch.float32
    return Entered(tuple(symmetrize(S.to(dtype)) for S in tensors.values()), numpy)


def leave(result: Tensor, numpy: bool) -> Any:
    """Give the result as NumPy if that is what came in.

    >>> type(leave(torch.ones(2), True)).__name__, type(leave(torch.ones(2), False)).__name__
    ('ndarray', 'Tensor')
    """
    return result.detach().numpy() if numpy else result


def as_float(name: str, value: Any) -> Tensor:
    """Return a float32 or float64 tensor of what came, or say which dtype came instead.

    >>> as_float("t", [0.0, 0.5]).dtype
    torch.float64
    """
    tensor = value if isinstance(value, Tensor) else _from_numpy(name, np.asarray(value))
    if tensor.dtype not in FLOATS:
        _refuse_dtype(name, str(tensor.dtype).removeprefix("torch."))
    return tensor


def symmetrize(S: Tensor) -> Tensor:
    """The symmetric part, without overflow at the top of the range."""
    return 0.5 * S + 0.5 * S.mT


def symmetry_tolerance(dtype: torch.dtype) -> float:
    """How far mirror entries may lie apart, relative to the largest entry of their matrix."""
    return float(torch.finfo(dtype).eps ** SYMMETRY_POWER_OF_EPS)


def where(position: Tensor | tuple[int, ...]) -> str:
    """Name one matrix of a batch by its index in the leading shape.

    >>> where(()), where((3,)), where((3, 1))
    ('the matrix', 'matrix 3', 'matrix (3, 1)')
    """
    index = tuple(int(k) for k in position)
    if not index:
        return "the matrix"
    return f"matrix {index[0]}" if len(index) == 1 else f"matrix {index}"


def listed(findings: list[str], total: int) -> str:
    """Join what was found; say how many more there are.

    >>> listed(["a", "b"], 4)
    'a; b; and 2 more'
    """
    more = [f"and {total - len(findings)} more"] if total > len(findings) else []
    return "; ".join([*findings, *more])


def _from_numpy(name: str, array: np.ndarray[Any, Any]) -> Tensor:
    if array.dtype.kind != "f" or array.dtype.itemsize not in (4, 8):
        _refuse_dtype(name, str(array.dtype))
    # torch takes neither foreign byte orders nor negative strides, and warns about read-only memory.
    native = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    return torch.from_numpy(native if native.flags.writeable else native.copy()).reshape(array.shape)


def _refuse_dtype(name: str, dtype: str) -> NoReturn:
    advice = "take its real part if that is meant" if "complex" in dtype else "convert it to float64 first"
    raise DataError(f"{name} must be real floating point, float32 or float64, but is {dtype}; {advice}")


def _raise_all(problems: list[str]) -> None:
    if problems:
        raise DataError(". ".join(problems))


def _wrong_shape(name: str, S: Tensor) -> Iterator[str]:
    if S.ndim < 2 or S.shape[-1] != S.shape[-2] or S.shape[-1] == 0:
        yield f"{name} must hold square matrices, shape (..., n, n) with n >= 1, but has shape {tuple(S.shape)}"


def _do_not_fit(tensors: dict[str, Tensor]) -> Iterator[str]:
    shapes = ", ".join(f"{name} {tuple(S.shape)}" for name, S in tensors.items())
    if len({S.shape[-1] for S in tensors.values()}) > 1:
        yield f"all matrices must have one size n, but the shapes are {shapes}"
    elif not _broadcast([S.shape[:-2] for S in tensors.values()]):
        yield f"the leading shapes must broadcast, but the shapes are {shapes}"
    if len({S.device for S in tensors.values()}) > 1:
        yield "all matrices must be on one device, but " + ", ".join(
            f"{k} is on {S.device}" for k, S in tensors.items()
        )


def _broadcast(shapes: list[torch.Size]) -> bool:
    try:
        torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call]
    except RuntimeError:
        return False
    return True


def _wrong_values(name: str, S: Tensor) -> Iterator[str]:
    """Look at all values; the two passes are one wait for the device when nothing is wrong."""
    S = S.detach()
    gap = (S - S.mT).abs()
    allowed = symmetry_tolerance(S.dtype) * S.abs().amax((-2, -1))
    # NaN compares false, so one question finds both kinds.
    if bool((gap.amax((-2, -1)) <= allowed).all()) and bool(S.isfinite().all()):
        return
    finite = S.isfinite().all(-1).all(-1)
    yield from _not_finite(name, S, ~finite)
    yield from _asymmetric(name, S, gap, finite & (gap.amax((-2, -1)) > allowed))


def _not_finite(name: str, S: Tensor, bad: Tensor) -> Iterator[str]:
    found = []
    for position in bad.nonzero()[:LISTED]:
        matrix = S[tuple(position)]
        i, j = (int(k) for k in (~matrix.isfinite()).nonzero()[0])
        count = int((~matrix.isfinite()).sum())
        found.append(f"{where(position)} has {float(matrix[i, j])} at [{i}, {j}] ({count} such entries)")
    if found:
        yield (
            f"{name} must be finite: {listed(found, int(bad.sum()))}; a series without variance or with missing "
            "frames gives such entries, so drop that node or that sample"
        )


def _asymmetric(name: str, S: Tensor, gap: Tensor, bad: Tensor) -> Iterator[str]:
    found = []
    for position in bad.nonzero()[:LISTED]:
        matrix = S[tuple(position)]
        i, j = divmod(int(gap[tuple(position)].argmax()), S.shape[-1])
        a, b = float(matrix[i, j]), float(matrix[j, i])
        found.append(f"{where(position)} has {a:.6g} at [{i}, {j}] but {b:.6g} at [{j}, {i}]")
    if found:
        yield (
            f"{name} must be symmetric: {listed(found, int(bad.sum()))}; mirror entries may differ by "
            f"{symmetry_tolerance(S.dtype):.2g} of the largest entry; if the symmetric part is meant, pass (S + Sᵀ)/2"
        )
