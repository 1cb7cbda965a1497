"""Files that are small on disk and large in memory, or lead out of their place: refused at once, in little memory."""

import gzip
import io
import json
import os
import resource
import stat
import struct
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from artefacts import networks, predictor, warm
from commands import call, is_refusal
from forks import in_child
from tally import Tally

from rmixup.data.store import _seal
from rmixup.files import seal, unseal
from rmixup.train.folder import save_model

# What a child may take beside what it has: far less than any of these files would fill.
ROOM = 512 << 20
SECONDS = 1.0
MEGABYTE = bytes(1 << 20)


def _limited(*arguments: object) -> tuple[int, str, float]:
    """Run a command in a fork that can take little memory: exit code, what was said, seconds."""

    def live() -> tuple[int, str, float]:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))
        start = time.process_time()  # of the processor: the machine may be busy with other things
        code, _, said = call(*arguments)
        return code, said, time.process_time() - start

    status, told = in_child(live)
    assert status == 0, told
    return tuple(told)  # type: ignore[return-value]


def _deflated(megabytes: int) -> tuple[bytes, int]:
    """So many megabytes of zeros as a raw deflate stream, and their CRC; made from one megabyte."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = squeeze.compress(MEGABYTE) + squeeze.flush(zlib.Z_FULL_FLUSH)
    return block * megabytes + squeeze.flush(zlib.Z_FINISH), 0


def _zip(members: list[tuple[bytes, bytes, int]]) -> bytes:
    """An archive of (name, deflated content, size when inflated)."""
    body, directory = b"", b""
    for name, content, size in members:
        sizes = struct.pack("<III", 0, len(content), size)
        directory += b"PK\x01\x02" + struct.pack("<HHHHHH", 20, 20, 0, 8, 0, 33) + sizes
        directory += struct.pack("<HHHHHII", len(name), 0, 0, 0, 0, 0, len(body)) + name
        body += b"PK\x03\x04" + struct.pack("<HHHHH", 20, 0, 8, 0, 33) + sizes
        body += struct.pack("<HH", len(name), 0) + name + content
    many = min(len(members), 0xFFFF)
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, many, many, len(directory), len(body), 0)
    return body + directory + end


def _npy(shape: tuple[int, ...], length: int | None = None) -> bytes:
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x02\x00" + (length or len(header)).to_bytes(4, "little") + header


def zip_bomb(path: Path) -> Path:
    """Four megabytes that unpack to 3.9 GB."""
    content, _ = _deflated(3900)
    path.with_suffix(".npz").write_bytes(_zip([(b"matrices.npy", content, 3900 << 20)]))
    return path.with_suffix(".npz")


def zip_bomb_that_tells_little(path: Path) -> Path:
    """The directory says that the member is small."""
    content, _ = _deflated(3900)
    path.with_suffix(".npz").write_bytes(_zip([(b"matrices.npy", content, 1000)]))
    return path.with_suffix(".npz")


def zip_bomb_with_a_header(path: Path) -> Path:
    """A true array of zeros of 3.9 GB, as one would get by numpy.savez_compressed."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    head = _npy((3900, 1 << 7, 1 << 10))
    body = squeeze.compress(head) + squeeze.flush(zlib.Z_FULL_FLUSH) + _deflated(3900)[0]
    path.with_suffix(".npz").write_bytes(_zip([(b"matrices.npy", body, len(head) + (3900 << 20))]))
    return path.with_suffix(".npz")


def million_members(path: Path) -> Path:
    name = path.with_suffix(".npz")
    entry = b"PK\x01\x02" + struct.pack("<HHHHHHIII", 20, 20, 0, 0, 0, 33, 0, 0, 0)
    with name.open("wb") as file:
        for k in range(0, 1_000_000, 10_000):
            rows = (
                entry + struct.pack("<HHHHHII", 11, 0, 0, 0, 0, 0, 0) + b"%07d.npy" % n for n in range(k, k + 10_000)
            )
            file.write(b"".join(rows))
        size = file.tell()
        file.write(b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, size, 0, 0))
    return name


def members_that_lead_out(path: Path) -> Path:
    name = path.with_suffix(".npz")
    with zipfile.ZipFile(name, "w") as archive:
        archive.writestr("../../matrices.npy", b"x")
    return name


def member_that_is_a_link(path: Path) -> Path:
    name = path.with_suffix(".npz")
    link = zipfile.ZipInfo("matrices.npy")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(name, "w") as archive:
        archive.writestr(link, "/etc/passwd")
    return name


def huge_header(path: Path) -> Path:
    """A sparse file whose header alone is four gigabytes."""
    with path.with_suffix(".npy").open("wb") as file:
        file.write(_npy((4,), length=2**32 - 1))
        file.truncate(2**32 + 100)
    return path.with_suffix(".npy")


def huge_shape(path: Path) -> Path:
    path.with_suffix(".npy").write_bytes(_npy((10**9, 400, 400)) + bytes(64))
    return path.with_suffix(".npy")


def overflowing_shape(path: Path) -> Path:
    path.with_suffix(".npy").write_bytes(_npy((2**62, 2**62, 4)) + bytes(64))
    return path.with_suffix(".npy")


def empty_h5(path: Path) -> Path:
    """Declares eight terabytes and stores none."""
    folder = path.with_suffix("")
    folder.mkdir()
    with h5py.File(folder / "a.mat", "w", userblock_size=512) as file:
        file.create_dataset("ROISignals", shape=(10**6, 10**6), chunks=(1000, 1000), dtype="f8", compression="gzip")
    return folder


def packed_h5(path: Path) -> Path:
    """Three gigabytes of one number."""
    folder = path.with_suffix("")
    folder.mkdir()
    with h5py.File(folder / "ROICorrelation_a.mat", "w") as file:
        file.create_dataset(
            "ROICorrelation", shape=(20_000, 20_000), chunks=(20_000, 20), dtype="f8", compression="gzip"
        )
        file["ROICorrelation"][:, :20] = 1.0
    return folder


def packed_mat(path: Path) -> Path:
    """A variable of version 5, deflated a thousandfold."""
    folder = path.with_suffix("")
    folder.mkdir()
    size = 2 << 30
    head = struct.pack("<IIII", 6, 8, 6, 0) + struct.pack("<IIII", 5, 8, 1 << 14, 1 << 14)
    head += struct.pack("<II", 1 | 4 << 16, int.from_bytes(b"a\0\0\0", "little")) + struct.pack("<II", 9, size)
    squeeze = zlib.compressobj(9)
    element = squeeze.compress(struct.pack("<II", 14, len(head) + size) + head)
    element += b"".join(squeeze.compress(MEGABYTE) for _ in range(200)) + squeeze.flush()
    start = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<HH", 0x0100, 0x4D49)
    (folder / "a.mat").write_bytes(start + struct.pack("<II", 15, len(element)) + element)
    return folder


def packed_table(path: Path) -> Path:
    """Four gigabytes in one line of a compressed table of expression; labels lie beside it."""
    path.with_name("labels.csv").write_text("sample,class\na,x\nb,y\n")
    name = path.with_name("bomb.tsv.gz")
    block = gzip.compress(bytes(b"0" * (1 << 20)))
    name.write_bytes(gzip.compress(b"sample\t") + block * 4000)
    return name


def deep_json(path: Path) -> Path:
    path.mkdir()
    (path / "dataset.json").write_text("[" * 1_000_000)
    return path


def large_json(path: Path) -> Path:
    path.mkdir()
    with (path / "dataset.json").open("wb") as file:
        file.write(b"{")
        file.truncate(4 << 30)
    return path


BOMBS: list[Callable[[Path], Path]] = [
    zip_bomb, zip_bomb_that_tells_little, zip_bomb_with_a_header, million_members, members_that_lead_out,
    member_that_is_a_link, huge_header, huge_shape, overflowing_shape, empty_h5, packed_h5, packed_mat, packed_table,
    deep_json, large_json,
]  # fmt: skip


@pytest.mark.fault(17)
@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb.__name__)
def test_a_bomb_is_refused_at_once(bomb: Callable[[Path], Path], tmp_path: Path, tally: Tally) -> None:
    warm()
    model = save_model(tmp_path / "model", predictor(0))
    path = bomb(tmp_path / "bomb")
    commands: dict[str, list[object]] = {"check": ["check", path], "import": ["import", path, tmp_path / "out"]}
    if bomb is packed_table:
        commands = {"import": [*commands["import"], "--labels", tmp_path / "labels.csv", "--target", "class"]}
    elif tally.full:
        commands["train"] = ["train", path, "--out", tmp_path / "m"]
        commands["predict"] = ["predict", model, path, "-o", tmp_path / "p.tsv"]
    call("check", path.parent / "nothing")  # what a first command loads is not the bomb's doing
    _loaded()
    for command, arguments in commands.items():
        with tally.attempt(f"{command} {bomb.__name__}"):
            code, said, seconds = _limited(*arguments)
            is_refusal(code, said, str(path))
            assert len(said) < 2000
            assert seconds < SECONDS, f"{seconds:.1f} s"
            assert not (tmp_path / "out").exists()


def _loaded() -> None:
    """Libraries that readers load when they are needed."""
    import anndata  # noqa: F401
    import nibabel  # noqa: F401
    import pyarrow  # noqa: F401
    import scipy.io  # noqa: F401


@pytest.mark.fault(17)
def test_models_that_declare_too_much_are_refused_at_once(tmp_path: Path, tally: Tally) -> None:
    """A card that asks for a network of a terabyte, with a seal that is right; a card of four gigabytes."""
    warm()
    data = networks(0).save(tmp_path / "data")
    model = save_model(tmp_path / "model", predictor(0))
    card = unseal(model / "model.json")
    for name, change in {
        "nodes": {"n_nodes": 10**6, "nodes": None},
        "outputs": {"n_outputs": 10**12, "classes": None, "task": "regression"},
        "mlp": {"backbone": "mlp", "options": {"hidden": [10**6, 10**6]}},
        "transformer": {"backbone": "transformer", "n_nodes": 10**5, "nodes": None, "options": {}},
    }.items():
        with tally.attempt(name):
            (model / "model.json").write_bytes(seal({**card, **change}))
            code, said, seconds = _limited("predict", model, data, "-o", tmp_path / "p.tsv")
            is_refusal(code, said, str(model))
            assert seconds < SECONDS
    with tally.attempt("large card"):
        os.truncate(model / "model.json", 4 << 30)
        code, said, seconds = _limited("predict", model, data, "-o", tmp_path / "p.tsv")
        is_refusal(code, said, "too many")
        assert seconds < SECONDS
    with tally.attempt("large weights"):
        (model / "model.json").write_bytes(seal(card))
        os.truncate(model / "model.safetensors", 4 << 30)
        code, said, seconds = _limited("predict", model, data, "-o", tmp_path / "p.tsv")
        is_refusal(code, said, "model.safetensors")
        assert seconds < SECONDS


@pytest.mark.fault(17)
def test_a_data_set_reads_nothing_outside_its_folder(tmp_path: Path, tally: Tally) -> None:
    """Names of files with ../, with / in front, or of links to elsewhere, sealed as if rmixup had written them."""
    secret = tmp_path / "secret.npy"
    np.save(secret, np.stack([np.eye(4)] * 12))
    for name in ("../secret.npy", str(secret), "matrices.npy/../../secret.npy", "sub/matrices.npy", "link.npy"):
        folder = networks(0).save(tmp_path / "data", overwrite=True)
        manifest = json.loads((folder / "dataset.json").read_text())
        if name == "link.npy":
            (folder / name).symlink_to(secret)
        manifest["files"][name] = manifest["files"].pop("matrices.npy")
        manifest["seal"] = _seal(manifest)
        (folder / "dataset.json").write_text(json.dumps(manifest))
        with tally.attempt(name):
            code, _, said = call("check", folder)
            is_refusal(code, said, str(folder))


@pytest.mark.fault(17)
def test_the_bombs_are_bombs() -> None:
    """What is refused would unpack to what it says."""
    content, _ = _deflated(3)
    assert zlib.decompress(content, -15) == MEGABYTE * 3
    with zipfile.ZipFile(io.BytesIO(_zip([(b"a.npy", content, 3 << 20)]))) as archive:
        info = archive.getinfo("a.npy")
        assert (info.file_size, info.compress_size) == (3 << 20, len(content))
