"""Binary files that lie, and those that do not."""

import io
import stat
import struct
import zipfile
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rmixup.data.npy import open_array
from rmixup.data.readers import _files
from rmixup.data.readers._files import check_h5, existing, h5_array, need, open_arrays, open_h5, read_mat
from rmixup.errors import DataError, FormatError


def npy_bytes(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def lying_npy(shape: tuple[int, ...], length: int | None = None) -> bytes:
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x02\x00" + (length or len(header)).to_bytes(4, "little") + header + bytes(64)


@given(
    array=arrays(
        np.float64, st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3)), elements=st.floats(-9, 9)
    ),
    fortran=st.booleans(),
    packed=st.booleans(),
)
def test_rows_and_whole_give_back_what_was_saved(tmp_path_factory, array, fortran, packed):
    folder = tmp_path_factory.mktemp("npy")
    array = np.asfortranarray(array) if fortran else array
    np.save(folder / "a.npy", array)
    (np.savez_compressed if packed else np.savez)(folder / "a.npz", a=array, names=np.array(["x", "ü"]))
    for stored in (open_arrays(folder / "a.npy")[""], open_arrays(folder / "a.npz")["a"]):
        np.testing.assert_array_equal(stored.whole(), array)
        np.testing.assert_array_equal(np.stack(list(stored.rows())), array)
    assert open_arrays(folder / "a.npz")["names"].whole().tolist() == ["x", "ü"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"no array", "not a NumPy array"),
        (b"\x93NUMPY\x01\x00\x76\x00", "not a NumPy array"),
        (lying_npy((10**9, 200, 200)), "declares 320000000000000 bytes"),
        (lying_npy((2**62, 2**62)), "declares"),
        (lying_npy((4,), length=2**32 - 1), "header claims 4294967295 bytes"),
        (npy_bytes(np.ones((3, 4)))[:-8], "declares 96 bytes .* holds 88"),
    ],
)
def test_npy_files_that_lie_are_refused_before_memory_is_taken(tmp_path, content, said):
    path = tmp_path / "a.npy"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=said) as caught:
        open_arrays(path)
    assert str(path) in str(caught.value)


def test_objects_are_never_unpickled(tmp_path):
    ran = tmp_path / "ran"

    class Attack:
        def __reduce__(self):
            return (Path.touch, (ran,))

    np.save(tmp_path / "a.npy", np.array([Attack()], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "a.npz", matrices=np.array([Attack()], dtype=object))
    for name in ("a.npy", "a.npz"):
        with pytest.raises(FormatError, match="Python objects"):
            open_arrays(tmp_path / name)
    assert not ran.exists()


def archive(path: Path, name: str = "a.npy", content: bytes | None = None, link: bool = False, kind: int = 0) -> Path:
    info = zipfile.ZipInfo(name)
    info.compress_type = kind
    if link:
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(info, npy_bytes(np.ones(4)) if content is None else content)
    return path


@pytest.mark.parametrize("name", ["../a.npy", "/etc/a.npy", "..\\a.npy", "C:a.npy", "b/a.npy"])
def test_members_outside_the_archive_are_refused(tmp_path, name):
    with pytest.raises(FormatError, match="outside the archive"):
        open_arrays(archive(tmp_path / "a.npz", name))


def test_links_in_an_archive_are_refused(tmp_path):
    with pytest.raises(FormatError, match="outside the archive"):
        open_arrays(archive(tmp_path / "a.npz", link=True))


def test_other_members_are_refused(tmp_path):
    with pytest.raises(FormatError, match=r"is no \.npy array"):
        open_arrays(archive(tmp_path / "a.npz", "a.txt"))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_refused(tmp_path):
    archive(tmp_path / "a.npz")
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as file:
        file.writestr("a.npy", npy_bytes(np.zeros(4)))
    with pytest.raises(FormatError, match="same name"):
        open_arrays(tmp_path / "a.npz")


def test_an_archive_that_unpacks_a_hundredfold_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "BOMB_BYTES", 1 << 16)
    path = archive(tmp_path / "a.npz", content=npy_bytes(np.zeros(1 << 15)), kind=zipfile.ZIP_DEFLATED)
    with pytest.raises(FormatError, match="no measured data"):
        open_arrays(path)


def test_a_truncated_archive_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.ones((50, 50)))
    whole = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FormatError, match="cut off or damaged"):
        open_arrays(tmp_path / "a.npz")


def test_a_member_whose_data_are_damaged_is_refused_when_read(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", a=np.random.default_rng(0).normal(size=(50, 50)))
    whole = bytearray((tmp_path / "a.npz").read_bytes())
    whole[5000:5100] = bytes(100)
    (tmp_path / "a.npz").write_bytes(whole)
    with pytest.raises(FormatError, match="the data are cut off or damaged"):
        list(open_arrays(tmp_path / "a.npz")["a"].rows())


# ---- MATLAB


def save_73(path: Path, **variables: object) -> Path:
    """A file as MATLAB's save -v7.3 lays it out: HDF5, arrays transposed, cells as references, text as uint16."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, value in variables.items():
            _put_73(file, name, value)
    with path.open("r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64, Created on: Tue Nov 11 11:11:11 2025 HDF5 schema 1.00 .")
    return path


def _put_73(file: h5py.File, name: str, value: object) -> h5py.Dataset:
    if isinstance(value, str):
        dataset = file.create_dataset(name, data=np.array([[ord(letter)] for letter in value], dtype=np.uint16))
        dataset.attrs["MATLAB_class"] = np.bytes_("char")
    elif isinstance(value, list):
        parts = [_put_73(file, f"#refs#/{name}{k}", entry) for k, entry in enumerate(value)]
        dataset = file.create_dataset(name, (len(parts), 1), dtype=h5py.ref_dtype)
        for k, part in enumerate(parts):
            dataset[k, 0] = part.ref
        dataset.attrs["MATLAB_class"] = np.bytes_("cell")
    else:
        dataset = file.create_dataset(name, data=np.asarray(value).T)
        dataset.attrs["MATLAB_class"] = np.bytes_("double")
    return dataset


@pytest.mark.parametrize("version", ["5", "5 packed", "7.3"])
def test_every_version_of_mat_gives_the_same(tmp_path, version):
    series = np.arange(12.0).reshape(4, 3)
    path = tmp_path / "a.mat"
    if version == "7.3":
        save_73(path, Z=series, names=["ACC", "PCC"], data=[series, series + 1], title="rest")
    else:
        cells = np.array([["ACC", "PCC"]], dtype=object)
        data = np.empty((1, 2), dtype=object)
        data[0, 0], data[0, 1] = series, series + 1
        given = {"Z": series, "names": cells, "data": data, "title": "rest"}
        scipy.io.savemat(path, given, do_compression="packed" in version)
    found = read_mat(path)
    assert set(found) == {"Z", "names", "data", "title"}
    np.testing.assert_array_equal(found["Z"], series)
    np.testing.assert_array_equal(found["data"][1], series + 1)
    assert found["names"] == ["ACC", "PCC"]
    assert found["title"] == "rest"
    assert set(read_mat(path, ("Z", "absent"))) == {"Z"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"no mat file at all" * 20, "cannot be read as a MATLAB file"),
        (b"MATLAB 7.3 MAT-file" + bytes(600), "cannot be read as HDF5"),
    ],
)
def test_damaged_mat_files_are_named(tmp_path, content, said):
    path = tmp_path / "a.mat"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=said) as caught:
        read_mat(path)
    assert str(path) in str(caught.value)


def test_a_cut_mat_file_is_named(tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", {"Z": np.ones((40, 40))})
    (tmp_path / "a.mat").write_bytes((tmp_path / "a.mat").read_bytes()[:600])
    with pytest.raises(FormatError, match=r"cannot be read as a MATLAB file|declares"):
        read_mat(tmp_path / "a.mat")


def mat_with(tmp_path, element, **given):
    """A MATLAB file of which one element was put in place of its own."""
    scipy.io.savemat(tmp_path / "a.mat", given or {"Z": np.ones((40, 40))})
    content = (tmp_path / "a.mat").read_bytes()
    (tmp_path / "a.mat").write_bytes(content[:128] + element(content[128:]))
    return tmp_path / "a.mat"


@pytest.mark.parametrize(
    ("element", "said"),
    [
        (
            lambda z: z.replace(struct.pack("<ii", 40, 40), struct.pack("<ii", 2**30, 2**30)),
            "1600 numbers for the shape",
        ),
        (lambda z: z.replace(struct.pack("<ii", 40, 40), struct.pack("<ii", -1, 40)), "claims the shape"),
        (lambda z: z.replace(struct.pack("<II", 9, 12800), struct.pack("<II", 9, 2**31)), "claims 2147483648 bytes"),
        (lambda z: z.replace(struct.pack("<II", 9, 12800), struct.pack("<II", 99, 12800)), "numbers of kind 99"),
        (lambda z: packed(struct.pack("<II", 14, 2**31) + bytes(8000)), "claim to unpack to 2147483648"),
        (lambda z: packed(struct.pack("<II", 14, 5000) + z[8:2000]), "claims 5000 bytes, 1992 are there"),
        (lambda z: packed(z)[:60], "are there"),
        (lambda z: struct.pack("<II", 15, 8) + b"no zlib!", "incorrect header check"),
    ],
)
def test_a_mat_file_is_not_believed(tmp_path, element, said):
    with pytest.raises(FormatError, match=f"cannot be read as a MATLAB file .*{said}"):
        read_mat(mat_with(tmp_path, element))


def packed(element):
    body = zlib.compress(element)
    return struct.pack("<II", 15, len(body)) + body


def test_cells_in_cells_without_end_are_refused(tmp_path):
    inner = np.ones((2, 2))
    for _ in range(20):
        inner, one = np.empty((1, 1), dtype=object), inner
        inner[0, 0] = one
    with pytest.raises(FormatError, match="17 levels deep"):
        read_mat(mat_with(tmp_path, lambda z: z, Z=inner))


def test_what_is_neither_number_nor_text_nor_cell_is_passed_over(tmp_path):
    given = {"s": {"a": 1.0}, "sparse": scipy.sparse.eye(3).tocsc(), "Z": np.eye(2) > 0, "c": np.eye(2) * 1j}
    scipy.io.savemat(tmp_path / "a.mat", given)
    found = read_mat(tmp_path / "a.mat")
    assert (found["s"], found["sparse"]) == (None, None)
    assert found["Z"].dtype == bool
    np.testing.assert_array_equal(found["c"], np.eye(2) * 1j)


def test_lines_of_letters_and_big_endian_files(tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", {"t": np.array(["ab", "cde"]), "e": "", "u": "\u00e9"})
    assert read_mat(tmp_path / "a.mat") == {"t": ["ab", "cde"], "e": "", "u": "\u00e9"}
    name = b"Z\0\0\0"
    body = struct.pack(">IIII", 6, 8, 6, 0) + struct.pack(">IIii", 5, 8, 1, 2) + struct.pack(">HH", 1, 1) + name
    body += struct.pack(">II2d", 9, 16, 1.5, -2.0)
    content = b"MATLAB 5.0".ljust(124) + b"\x01\0MI" + struct.pack(">II", 14, len(body)) + body
    (tmp_path / "b.mat").write_bytes(content)
    np.testing.assert_array_equal(read_mat(tmp_path / "b.mat")["Z"], [[1.5, -2.0]])


@pytest.mark.parametrize(
    ("descr", "shape", "said"),
    [
        ("<U0", "(3,)", "texts or records of no length"),
        ("<f8", "(1" + ", 1" * 40 + ")", "is damaged"),
        ("<f8", "(True, 3)", "is damaged"),
    ],
)
def test_headers_that_numpy_itself_stumbles_over(tmp_path, descr, shape, said):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(640))
    with pytest.raises(FormatError, match=said):
        open_arrays(tmp_path / "a.npy")


@pytest.mark.parametrize("order", ["<", ">"])
def test_text_of_numbers_that_are_no_letters_is_refused(tmp_path, order):
    np.save(tmp_path / "a.npy", np.array([65, 0x10FFFF, 0], order + "u4").view(order + "U3"))
    assert open_arrays(tmp_path / "a.npy")[""].whole().tolist() == ["A\U0010ffff"]
    np.save(tmp_path / "a.npy", np.array([65, 0x110000, 0], order + "u4").view(order + "U3"))
    with pytest.raises(FormatError, match="no letter has the number 1114112"):
        open_arrays(tmp_path / "a.npy")[""].whole()
    with pytest.raises(FormatError, match="no letter has the number 1114112"):
        open_array(tmp_path / "a.npy")


# ---- HDF5


@pytest.mark.parametrize("damage", ["in itself", "more than it holds", "elsewhere"])
def test_h5_is_looked_through_before_others_read_it(tmp_path, damage):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["fine/x"] = np.ones(3)
        if damage == "in itself":
            file["fine/again"] = file["/"]
        elif damage == "elsewhere":
            file["fine/link"] = h5py.ExternalLink("b.h5", "/x")
        else:
            file.create_dataset("fine/much", (2**31, 2**31), dtype="f8", chunks=(1, 1))
    said = {"in itself": "or in itself", "more than it holds": "its header declares", "elsewhere": "a link to another"}
    with pytest.raises(FormatError, match=said[damage]):
        check_h5(tmp_path / "a.h5")


def test_links_to_other_files_are_not_followed(tmp_path):
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["Z"] = np.ones((2, 2))
    for link in (h5py.ExternalLink("secret.h5", "/Z"), h5py.SoftLink("/elsewhere")):
        with h5py.File(tmp_path / "a.mat", "w") as file:
            file["Z"] = link
        with pytest.raises(FormatError, match="is a link to another place"):
            read_mat(tmp_path / "a.mat")


def test_data_in_other_files_are_not_followed(tmp_path):
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["Z"] = np.ones((2, 2))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        layout = h5py.VirtualLayout((2, 2), dtype="f8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "secret.h5"), "Z", (2, 2))
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("external", (2, 2), "f8", external=[(str(tmp_path / "raw"), 0, h5py.h5f.UNLIMITED)])
    with open_h5(tmp_path / "a.h5") as file:
        for name in ("virtual", "external"):
            with pytest.raises(FormatError, match="in another file"):
                h5_array(tmp_path / "a.h5", file[name])


def test_a_dataset_larger_than_its_file_is_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("Z", (10**6, 10**6), "f8", chunks=(10, 10))
    with open_h5(tmp_path / "a.h5") as file, pytest.raises(FormatError, match="declares 8000000000000 bytes"):
        h5_array(tmp_path / "a.h5", file["Z"])


def test_a_damaged_chunk_is_named(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset(
            "Z", data=np.random.default_rng(0).normal(size=(64, 64)), compression="gzip", fletcher32=True
        )
        place = file["Z"].id.get_chunk_info(0).byte_offset
    content = bytearray((tmp_path / "a.h5").read_bytes())
    content[place + 50 : place + 90] = bytes(40)
    (tmp_path / "a.h5").write_bytes(content)
    with open_h5(tmp_path / "a.h5") as file, pytest.raises(FormatError, match="'/Z' is damaged"):
        h5_array(tmp_path / "a.h5", file["Z"])


# ---- what is not there


def test_a_missing_library_names_its_extra(monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(_files, "import_module", absent)
    with pytest.raises(DataError, match=r"a\.nii: reading it needs nibabel.*pip install 'rmixup\[neuro\]'"):
        need("nibabel.cifti2", Path("a.nii"))


def test_missing_paths_and_unfetched_links_are_told_apart(tmp_path):
    (tmp_path / "annexed.csv").symlink_to(".git/annex/objects/x")
    with pytest.raises(FormatError, match="datalad get"):
        existing(tmp_path / "annexed.csv")
    with pytest.raises(FormatError, match="no such file"):
        existing(tmp_path / "absent.csv")
    assert existing(tmp_path) == tmp_path
