"""Arrays from binary files, read without trusting them: .npy, .npz, .mat (v5 and v7.3), HDF5.

Nothing is unpickled; what a header declares is compared with what the file can hold before memory is taken; archive
members and HDF5 links may not lead out of their file. May not be here: what the arrays mean.
"""

from __future__ import annotations

import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt

from rmixup.data import npy
from rmixup.data.npy import BOMB_BYTES, BOMB_RATIO
from rmixup.data.readers._mat5 import read_mat5
from rmixup.errors import DataError, FormatError, RMixupError

Array = npt.NDArray[Any]

# zlib cannot do better than 1032:1, so a header that declares more than that cannot be true.
MAX_RATIO = 1032
# The directory of an archive is described in its last bytes; more members than fit there are no people's series.
_ZIP_END_WITHIN = 22 + 0xFFFF
_MAX_MEMBERS, _MAX_DIRECTORY = 0xFFFF, 16 << 20
# What the standard library raises on a damaged archive (RuntimeError: it is encrypted).
_BAD_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    UnicodeDecodeError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    OSError,
)
_EXTRAS = {"h5py": "neuro", "nibabel": "neuro", "nilearn": "neuro", "anndata": "genes", "pyarrow": "genes"}


def need(module: str, path: Path) -> ModuleType:
    """Import an optional library, or say which extra brings it."""
    try:
        return import_module(module)
    except ImportError:
        library = module.split(".", maxsplit=1)[0]
        raise DataError(
            f"{path}: reading it needs {library}, which is not installed: pip install 'rmixup[{_EXTRAS[library]}]'"
        ) from None


def existing(path: Path) -> Path:
    """The path, or an error that says what is wrong with it."""
    if path.exists():
        return path
    if path.is_symlink():
        raise FormatError(
            f"{path}: is a link to a file that is not here ({path.readlink()}); "
            "fetch its content first (with DataLad: `datalad get`)"
        )
    raise FormatError(f"{path}: no such file or folder; check the path")


# ---------------------------------------------------------------------------------------------- .npy and .npz


@dataclass(frozen=True)
class Npy:
    """One array in a .npy file or an .npz archive, of which only the header was read."""

    where: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    _open: Callable[[], Any]

    def whole(self) -> Array:
        """The array itself."""
        with self._open() as file:
            flat = _take(file, self, int(np.prod(self.shape)))
        return flat.reshape(self.shape, order="F" if self.fortran else "C")

    def rows(self) -> Iterator[Array]:
        """The array along its first axis, one entry in memory at a time (all of it when in Fortran order)."""
        if self.fortran:
            yield from self.whole()
            return
        count = int(np.prod(self.shape[1:]))
        with self._open() as file:
            for _ in range(self.shape[0]):
                yield _take(file, self, count).reshape(self.shape[1:])


def open_arrays(path: Path) -> dict[str, Npy]:
    """The arrays of a .npy file (under the name "") or of an .npz archive, headers checked, nothing loaded."""
    if path.stat().st_size == 0:
        raise FormatError(f"{path}: the file is empty; copy or save it again")
    if path.suffix.lower() == ".npy":
        return {"": _npy(path)}
    _refuse_many_members(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return {_member_name(path, info): _member(path, archive, info) for info in _checked(path, archive)}
    except _BAD_ZIP as error:
        raise FormatError(f"{path}: the archive is cut off or damaged ({error}); save or copy it again") from None


def _refuse_many_members(path: Path) -> None:
    """Look at the end of an archive first: the standard library makes an object of every member on opening."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _ZIP_END_WITHIN))
        end = file.read()
    at = end.rfind(b"PK\x05\x06")
    if at < 0 or at + 22 > len(end):
        return  # no archive, or a damaged one: told when it is opened
    count, directory = struct.unpack_from("<HI", end, at + 10)
    if count >= _MAX_MEMBERS or directory > _MAX_DIRECTORY:
        raise FormatError(
            f"{path}: the archive has {_MAX_MEMBERS} members or more, or names too long for arrays; save the series of "
            "so many people as one array, or as a file each"
        )


def _npy(path: Path) -> Npy:
    @contextmanager
    def opened() -> Iterator[IO[bytes]]:
        with path.open("rb") as file:
            _read_header(str(path), file)
            yield file

    with path.open("rb") as file:
        shape, fortran, dtype = _read_header(str(path), file)
        check_size(str(path), shape, dtype, path.stat().st_size - file.tell())
    return Npy(str(path), shape, dtype, fortran, opened)


def _checked(path: Path, archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    members = archive.infolist()
    for info in members:
        name = info.filename
        if "/" in name or "\\" in name or ".." in name or ":" in name or stat.S_ISLNK(info.external_attr >> 16):
            raise FormatError(
                f"{path}: member {name!r} leads outside the archive; expected plain names such as matrices.npy; "
                "do not use a file from this source"
            )
        if not name.endswith(".npy"):
            raise FormatError(f"{path}: member {name!r} is no .npy array; save the archive with numpy.savez")
        if info.file_size > BOMB_BYTES and info.file_size > BOMB_RATIO * max(info.compress_size, 1):
            raise FormatError(
                f"{path}: member {name!r} unpacks {info.compress_size} bytes to {info.file_size}, which no measured "
                "data does; save it uncompressed if it is genuine"
            )
    if len({info.filename for info in members}) < len(members):
        raise FormatError(f"{path}: two members have the same name; save the archive again")
    return members


def _member_name(path: Path, info: zipfile.ZipInfo) -> str:
    return info.filename.removesuffix(".npy")


def _member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Npy:
    where = f"{path}, array {_member_name(path, info)!r}"

    @contextmanager
    def opened() -> Iterator[IO[bytes]]:
        with zipfile.ZipFile(path) as again, again.open(info.filename) as file:
            _read_header(where, file)
            yield file

    with archive.open(info) as file:
        shape, fortran, dtype = _read_header(where, file)
        check_size(where, shape, dtype, info.file_size - file.tell())
    return Npy(where, shape, dtype, fortran, opened)


def _read_header(where: str, file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read magic and header, and leave the file at the first number."""
    shape, fortran, dtype, offset = npy._read_header(cast(Any, file), cast(Any, where))
    file.seek(offset)
    return shape, fortran, dtype


def check_size(where: str, shape: tuple[int, ...], dtype: np.dtype[Any], available: int) -> None:
    """Refuse a header that declares more bytes than there can be."""
    # Python's integers: NumPy's product of a hostile shape would overflow.
    declared = dtype.itemsize
    for size in shape:
        declared *= size
    if declared > available:
        raise FormatError(
            f"{where}: its header declares {declared} bytes (shape {shape}), the file holds {available}; "
            "it is cut off or damaged: save or copy it again"
        )


def _take(file: IO[bytes], array: Npy, count: int) -> Array:
    wanted = count * array.dtype.itemsize
    try:
        data = file.read(wanted)
    except _BAD_ZIP:
        data = b""
    if len(data) < wanted:
        raise FormatError(f"{array.where}: the data are cut off or damaged; save or copy the file again")
    values = np.frombuffer(data, dtype=array.dtype, count=count)
    npy.check_text(values, array.where)
    # pandas takes no numbers of another machine's byte order.
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


# ------------------------------------------------------------------------------------------------ .mat and HDF5


def read_mat(path: Path, wanted: tuple[str, ...] | None = None) -> dict[str, Any]:
    """The variables of a MATLAB file: numeric arrays in MATLAB's shape, cells as lists, text as str.

    `wanted` names the variables to read (those that exist); None reads all. v7.3 files are HDF5 and need h5py.
    """
    with path.open("rb") as file:
        head = file.read(520)
    if not head:
        raise FormatError(f"{path}: the file is empty; copy or save it again")
    if head.startswith((b"MATLAB 7.3", b"\x89HDF")) or head[512:516] == b"\x89HDF":
        with open_h5(path) as file5:
            names = [name for name in file5 if not name.startswith("#") and (wanted is None or name in wanted)]
            return {name: _h5_value(path, file5, name) for name in names}
    # The first four bytes are letters since version 5, and a number before.
    return _read_mat4(path, wanted) if 0 in head[:4] or len(head) < 4 else read_mat5(path, wanted)


def _read_mat4(path: Path, wanted: tuple[str, ...] | None) -> dict[str, Any]:
    """MATLAB before version 5, through SciPy, whose reader of it is plain Python."""
    from scipy.io import loadmat, whosmat

    try:
        for name, shape, _ in whosmat(path):
            check_size(f"{path}, variable {name!r}", tuple(shape), np.dtype("u1"), path.stat().st_size)
        found = loadmat(path, variable_names=None if wanted is None else list(wanted), chars_as_strings=True)
    except FormatError:
        raise
    except Exception as error:  # a damaged foreign file makes SciPy raise anything
        raise FormatError(f"{path}: cannot be read as a MATLAB file ({error}); save it again as v7") from None
    return {name: value for name, value in found.items() if not name.startswith("__")}


@contextmanager
def open_h5(path: Path) -> Iterator[Any]:
    """An HDF5 file, open for reading."""
    h5py = need("h5py", path)
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise FormatError(f"{path}: cannot be read as HDF5 ({error}); copy or save it again") from None
    with file:
        try:
            yield file
        except RMixupError:
            raise
        except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:  # h5py raises any of them on damage
            raise FormatError(f"{path}: is damaged HDF5 ({error}); copy or save it again") from error


def h5_array(path: Path, dataset: Any) -> Array:
    """The numbers of an HDF5 dataset, refused when they lie in another file or cannot be as many as declared."""
    if getattr(dataset, "shape", None) is None:
        raise FormatError(f"{path}: {getattr(dataset, 'name', None)!r} holds no array; save the file again")
    _check_dataset(path, dataset)
    try:
        return np.asarray(dataset[()])
    except OSError as error:
        raise FormatError(f"{path}: {dataset.name!r} is damaged ({error}); copy or save the file again") from None


def _check_dataset(path: Path, dataset: Any) -> None:
    if dataset.is_virtual or dataset.external:
        raise FormatError(
            f"{path}: {dataset.name!r} keeps its data in another file, which is not followed; copy them in"
        )
    stored = dataset.id.get_storage_size()
    check_size(f"{path}, {dataset.name!r}", dataset.shape, dataset.dtype, MAX_RATIO * stored)


def h5_datasets(path: Path, group: Any) -> Iterator[tuple[str, Any]]:
    """(name, dataset) of everything below an HDF5 group."""
    yield from _below(path, group, "", set())


def _below(path: Path, group: Any, prefix: str, seen: set[object]) -> Iterator[tuple[str, Any]]:
    # Not h5o.get_info: it adds up the sizes of a group's index, and never ends where that leads in a circle.
    address = need("h5py", path).h5g.get_objinfo(group.id).objno
    if address in seen:
        raise FormatError(f"{path}: the group {prefix!r} stands in several places, or in itself; save the file again")
    seen.add(address)
    for name, entry in h5_children(path, group).items():
        if hasattr(entry, "shape"):
            yield prefix + name, entry
        else:
            yield from _below(path, entry, f"{prefix}{name}/", seen)


def check_h5(path: Path) -> None:
    """Refuse an HDF5 file that leads elsewhere or declares more than it holds, before another library reads it."""
    with open_h5(path) as file:
        for _, dataset in h5_datasets(path, file):
            if dataset.shape is not None:
                _check_dataset(path, dataset)


def h5_children(path: Path, group: Any) -> dict[str, Any]:
    """The entries of an HDF5 group; links that lead elsewhere are refused."""
    h5py = need("h5py", path)
    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise FormatError(f"{path}: {name!r} is a link to another place, which is not followed; copy the data in")
    return {name: group[name] for name in group}


def _h5_value(path: Path, file: Any, name: str) -> Any:
    entry = h5_children(path, file)[name]
    return _h5_plain(path, file, entry) if hasattr(entry, "shape") else None


def _h5_plain(path: Path, file: Any, dataset: Any) -> Any:
    h5py = need("h5py", path)
    values = h5_array(path, dataset).T
    kind = dataset.attrs.get("MATLAB_class", b"")
    if h5py.check_ref_dtype(dataset.dtype) is h5py.Reference:
        return [_h5_plain(path, file, file[ref]) for ref in values.ravel(order="F")]
    if isinstance(kind, bytes) and kind == b"char" and values.dtype.kind == "u":
        return "".join(map(chr, values.ravel(order="F"))).strip()
    return values
