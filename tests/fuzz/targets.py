"""What is fuzzed: for each reader, valid files to start from, how they are changed, and how they are read.

A target lays valid companions into a folder and has one file there changed; where a checksum stands in front of a
reader, it is made to fit again, so that what lies behind it is reached.
"""

from __future__ import annotations

import atexit
import fcntl
import gzip
import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from mutate import TEXTS, Mutate, encoded, mat5, npy_header, npz, raw, safetensors, table, tree

Seeds = list[bytes]
# A file system in memory, where there is one; and what is made once on it.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()
_KEPT = Path(tempfile.mkdtemp(prefix="rmixup-fuzz-kept-", dir=MEMORY))
atexit.register(shutil.rmtree, _KEPT, ignore_errors=True)


@dataclass(frozen=True)
class Target:
    """One reader under fire.

    Parameters
    ----------
    file : the changed file, below the folder
    lay : writes its companions into a folder, returns valid contents of the file
    read : reads the folder
    mutate : makes an input from valid ones
    share : inputs of a million
    place : puts an input there; by default it is the file
    writes : whether reading may write below the folder (results that are taken in, damage that is moved aside)
    """

    file: str
    lay: Callable[[Path], Seeds]
    read: Callable[[Path], object]
    mutate: Mutate
    share: int
    place: Callable[[Path, bytes], None] | None = None
    writes: bool = False

    def put(self, folder: Path, content: bytes) -> None:
        """Lay an input where it is read."""
        if self.place is not None:
            self.place(folder, content)
        else:
            (folder / self.file).write_bytes(content)


def _rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def _series(people: int = 3, frames: int = 9, nodes: int = 3) -> np.ndarray[Any, Any]:
    return _rng().normal(size=(people, frames, nodes)).round(4)


def _matrices(people: int = 4, nodes: int = 3) -> np.ndarray[Any, Any]:
    return np.stack([np.corrcoef(one.T) for one in _rng().normal(size=(people, 20, nodes))])


def _load(folder: Path, **options: Any) -> object:
    import rmixup

    ds = rmixup.load(folder, **options)
    return repr(ds), ds.content_hash()


_PEOPLE = "participant_id\tdx\tage\tsite\nsub-01\ta\t30\tX\nsub-02\tb\t41.5\tY\nsub-03\ta\tn/a\tX\n"


# ------------------------------------------------------------------------------------------------ tables, arrays


def _lay_text(folder: Path) -> Seeds:
    x, m = _series()[0], _matrices()[0]
    rows = ["\t".join(f"{v:.4g}" for v in row) for row in x]
    square = [",".join(f"{v:.4g}" for v in row) for row in m]
    return [
        "\n".join(rows).encode(),
        ("a\tb\tc\n" + "\n".join(rows)).encode(),
        ("# 3 columns\n#1\t#2\t#3\n" + "\n".join(rows)).encode(),
        ("Node,a,b,c\n" + "\n".join(f"{n},{row}" for n, row in zip("abc", square, strict=True))).encode(),
        "\n".join(square).replace(",", ";").encode(),
        b"\xef\xbb\xbf" + "\r\n".join(rows).replace("\t", "  ").encode(),
    ]


def _read_person(name: str, folder: Path, **options: Any) -> object:
    from rmixup.data.readers.tables import read_person

    return read_person(folder / name, "s1", **options)


def _lay_folder(folder: Path) -> Seeds:
    for k, one in enumerate(_series()[1:], start=2):
        np.savetxt(folder / f"sub-0{k}.csv", one, "%.4g", ",", header="a,b,c", comments="")
    (folder / "participants.tsv").write_text(_PEOPLE)
    return [("a,b,c\n" + "\n".join(",".join(map(str, row)) for row in _series()[0])).encode()]


def _lay_labels(folder: Path) -> Seeds:
    for k, one in enumerate(_series(), start=1):
        np.savetxt(folder / f"sub-0{k}.csv", one, "%.4g", ",", header="a,b,c", comments="")
    return [_PEOPLE.encode(), _PEOPLE.replace("\t", ",").encode(), _PEOPLE.replace("n/a", "7").encode()]


def _lay_names(folder: Path) -> Seeds:
    _lay_labels(folder)
    (folder / "participants.tsv").write_text(_PEOPLE)
    return [b"index,roi\n1,L\n2,R\n3,M\n", b"name\nL\nR\nM\n"]


def _npy_bytes(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def _arrays() -> list[np.ndarray[Any, Any]]:
    x = _series(people=4)
    return [_matrices(), x, x.astype(np.float32), np.asfortranarray(_matrices()), (x * 100).astype(np.int16)]


def _lay_npy(folder: Path) -> Seeds:
    people = "".join(f"s{k}\t{'ab'[k % 2]}\n" for k in range(4))
    (folder / "participants.tsv").write_text("participant_id\tdx\n" + people)
    return [_npy_bytes(one) for one in _arrays()]


def _lay_person_npy(folder: Path) -> Seeds:
    return [_npy_bytes(one[0]) for one in _arrays()]


def _npz_bytes(how: Callable[..., None] = np.savez, **arrays: Any) -> bytes:
    stream = io.BytesIO()
    how(stream, **arrays)
    return stream.getvalue()


def _lay_npz(folder: Path) -> Seeds:
    known: dict[str, Any] = {"y": np.array(list("abab")), "subjects": np.array(["s1", "s2", "s3", "s4"])}
    series = _series(people=4)
    numbered = {f"series_{k}": one[: 6 + k] for k, one in enumerate(series)}
    more = {"groups": np.array(list("XXYY")), "families": np.array(list("ffgh")), "nodes": np.array(list("abc"))}
    return [
        _npz_bytes(matrices=_matrices(), **known, **more),
        _npz_bytes(np.savez_compressed, series=series, **known),
        _npz_bytes(**numbered, subjects=known["subjects"], y=np.arange(4.0) + 0.5),
        _npz_bytes(matrices=_matrices(), subjects=known["subjects"], y=np.arange(8.0).reshape(4, 2)),
    ]


def _each(change: Callable[[Random, bytes], bytes]) -> Mutate:
    return lambda rng, seeds: change(rng, rng.choice(seeds))


# ------------------------------------------------------------------------------------------------ MATLAB, HDF5, Parquet


def _cell(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    array = np.empty((1, len(values)), dtype=object)
    for k, value in enumerate(values):
        array[0, k] = value
    return array


def _mat_bytes(**found: Any) -> bytes:
    import scipy.io

    stream = io.BytesIO()
    scipy.io.savemat(stream, found)
    return stream.getvalue()


def _lay_mat(folder: Path) -> Seeds:
    x = _series()[0]
    return [
        _mat_bytes(ROISignals=x),
        _mat_bytes(ROISignals=(x * 10).astype(np.int16), other="text"),
        _mat_bytes(ROISignals=x, more={"a": 1.0, "b": _cell(["p", "q"])}),
    ]


def _lay_conn(folder: Path) -> Seeds:
    names = ["Grey Matter", "atlas.A", "atlas.B", "Effect of rest"]
    data = _cell([np.ones((9, 2)), *(column[:, None] for column in _series()[0].T[:2]), np.ones((9, 1))])
    weights = _cell([np.ones((9, 1)), np.ones((9, 1))])
    return [
        _mat_bytes(data=data, names=_cell(names)),
        _mat_bytes(data=data, names=_cell(names), conditionweights=weights),
    ]


def _h5(build: Callable[[Any], None]) -> bytes:
    import h5py

    with h5py.File("x", "w", driver="core", backing_store=False) as file:
        build(file)
        file.flush()
        return bytes(file.id.get_file_image())


def _matlab73(file: Any) -> None:
    import h5py

    data = file.create_dataset("ROISignals", data=_series()[0].T)
    data.attrs["MATLAB_class"] = np.bytes_("double")
    text = file.create_dataset("note", data=np.frombuffer("ok".encode("utf-16-le"), "<u2"))
    text.attrs["MATLAB_class"] = np.bytes_("char")
    refs = file.create_group("#refs#")
    inner = refs.create_dataset("a", data=np.eye(2))
    cells = file.create_dataset("cells", (2, 1), dtype=h5py.ref_dtype)
    cells[0, 0] = cells[1, 0] = inner.ref


def _giga(file: Any, **how: Any) -> None:
    for name, one in zip(("01", "02"), _series(), strict=False):
        group = file.create_group(f"sub-{name}/ses-1")
        stem = f"sub-{name}_ses-1_task-rest_atlas-A_desc-3Parcels"
        group.create_dataset(f"{stem}_timeseries", data=one, **how).attrs["RepetitionTime"] = 2.0
        group.create_dataset(f"{stem}_connectome", data=np.corrcoef(one.T), **how)


def _lay_mat73(folder: Path) -> Seeds:
    plain = _h5(_matlab73)
    return [b"MATLAB 7.3 MAT-file".ljust(512) + plain, plain]


def _lay_h5(folder: Path) -> Seeds:
    packed = partial(_giga, compression="gzip", shuffle=True, chunks=True, fletcher32=True)
    return [_h5(_giga), _h5(packed)]


_H5_WORDS = [b"\x89HDF\r\n\x1a\n", b"OHDR", b"TREE", b"SNOD", b"HEAP", b"FRHP", b"BTHD", b"GCOL", b"OCHK", b"FADB"]
_DATA = (
    np.float64(3), np.zeros((3, 3)), np.zeros(0), np.zeros((2, 0)), np.array([b"a", b"b"]), np.array(["é"], object),
    True,
    np.zeros((2, 2), complex), np.zeros(3, [("a", "<f8"), ("b", "<i4")]), 2**62, np.zeros((1,) * 8), -1.5,
)  # fmt: skip


def h5_objects(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """An HDF5 file with objects dropped, moved, retyped, linked elsewhere, emptied, with other attributes."""
    import h5py

    with h5py.File(io.BytesIO(rng.choice(seeds)), "r+") as file:
        for _ in range(rng.randint(1, 3)):
            names: list[str] = []
            file.visit(names.append)
            if names:
                _h5_change(rng, h5py, file, rng.choice(names))
        file.flush()
        return bytes(file.id.get_file_image())


def _h5_change(rng: Random, h5py: Any, file: Any, name: str) -> None:
    kind = rng.randrange(9)
    if kind <= 1:
        entry = file[name]
        key = rng.choice([*entry.attrs, "encoding-type", "MATLAB_class", "shape"])
        values = ("", "array", "csr_matrix", "dataframe", "categorical", b"char", b"cell", *_DATA)
        entry.attrs[key] = rng.choice(values)
        return
    if kind == 2 and len(file[name].attrs):
        del file[name].attrs[rng.choice(list(file[name].attrs))]
        return
    del file[name]
    if kind <= 5:
        file.create_dataset(name, data=rng.choice(_DATA))
    elif kind == 6:
        links = (h5py.ExternalLink("../canary/secret", "/x"), h5py.SoftLink("/"), h5py.SoftLink("/nowhere"))
        file[name] = rng.choice(links)
    elif kind == 7:
        file[name] = file["/"] if rng.random() < 0.5 else h5py.Empty("f8")
    else:
        shape = rng.choice(((2**31, 2**31), (10**9,), (3, 10**7)))
        file.create_dataset(name, shape, dtype=rng.choice(("f8", "i1", "S9")), chunks=(1,) * len(shape))


def _or(share: float, first: Mutate, second: Mutate) -> Mutate:
    return lambda rng, seeds: (first if rng.random() < share else second)(rng, seeds)


_GENES, _SAMPLES = 4, 12


def _expression() -> Any:
    import pandas as pd

    names = [f"S{k:02d}" for k in range(_SAMPLES)]
    values = pd.DataFrame(_rng().normal(10, 2, size=(_SAMPLES, _GENES)).round(3), index=names)
    return values.set_axis([f"g{k}" for k in range(_GENES)], axis=1)


def _lay_classes(folder: Path) -> None:
    rows = "".join(f"S{k:02d},P{k // 2},{'AB'[k % 4 > 1]}\n" for k in range(_SAMPLES))
    (folder / "labels.csv").write_text("sample,patient,type\n" + rows)


def _lay_expression(folder: Path) -> Seeds:
    _lay_classes(folder)
    values = _expression()
    return [values.to_csv(sep=mark, index_label="sample").encode() for mark in "\t,"]


def _lay_expression_gz(folder: Path) -> Seeds:
    return [gzip.compress(seed, 1, mtime=0) for seed in _lay_expression(folder)]


def _zipped_table(rng: Random, seeds: Sequence[bytes]) -> bytes:
    if rng.random() < 0.4:
        return raw()(rng, seeds)
    return gzip.compress(table()(rng, [gzip.decompress(seed) for seed in seeds]), 1, mtime=0)


def _parquet_bytes(frame: Any, **options: Any) -> bytes:
    stream = io.BytesIO()
    frame.to_parquet(stream, **options)
    return stream.getvalue()


def _lay_parquet(folder: Path) -> Seeds:
    _lay_classes(folder)
    values = _expression()
    return [_parquet_bytes(values), _parquet_bytes(values.rename_axis("s").reset_index(), compression=None)]


def _lay_labels_parquet(folder: Path) -> Seeds:
    import pandas as pd

    _lay_labels(folder)
    frame = pd.read_csv(io.StringIO(_PEOPLE), sep="\t")
    return [_parquet_bytes(frame), _parquet_bytes(frame.astype({"dx": "category"}).set_index("participant_id"))]


def parquet_pandas(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """A table whose own description, columns or types are not what pandas wrote."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    held = pq.read_table(io.BytesIO(rng.choice(seeds)), use_threads=False)
    told = dict(held.schema.metadata or {})
    kind = rng.randrange(4)
    if kind <= 1 and b"pandas" in told:
        told[b"pandas"] = json.dumps(tree(rng, json.loads(told[b"pandas"]))).encode()
    elif kind == 2:
        k = rng.randrange(held.num_columns)
        n = held.num_rows
        columns = (pa.nulls(n), pa.array([[1]] * n), pa.array([b"\xff"] * n), pa.array([{"a": 1}] * n))
        columns += (pa.array([None, *["x"] * (n - 1)]), pa.array([True] * n), pa.array([2**63 - 1] * n))
        columns += (
            pa.array([1e300] * n),
            pa.array([10**15] * n, pa.timestamp("us")),
            pa.array(["x"] * n).dictionary_encode(),
        )
        held = held.set_column(k, rng.choice((held.column_names[k], *TEXTS[:-10])), rng.choice(columns))
    else:
        held = held.select(rng.sample(held.column_names, rng.randrange(held.num_columns + 1)))
    stream = io.BytesIO()
    pq.write_table(held.replace_schema_metadata(told), stream)
    return stream.getvalue()


def _h5ad_bytes(sparse: bool) -> bytes:
    import anndata
    import pandas as pd
    import scipy.sparse

    values = _expression()
    names = values.index
    obs = pd.DataFrame({"type": list("AABB" * 3), "patient": [f"P{k // 2}" for k in range(len(names))]}, index=names)
    x = values.to_numpy()
    held = anndata.AnnData(scipy.sparse.csr_matrix(x) if sparse else x, obs=obs, var=pd.DataFrame(index=values.columns))
    with tempfile.TemporaryDirectory() as place:
        held.write_h5ad(Path(place) / "x.h5ad")
        return (Path(place) / "x.h5ad").read_bytes()


def _lay_h5ad(folder: Path) -> Seeds:
    return [_h5ad_bytes(False), _h5ad_bytes(True)]


def _genes(name: str, folder: Path) -> object:
    labels = None if name.endswith(".h5ad") else folder / "labels.csv"
    options = {"target": "type", "top_k": 3, "per_network": 4, "constant": "zero"}
    return _load(folder / name, labels=labels, **options)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------ ABIDE and BIDS


def _lay_pcp(folder: Path) -> Seeds:
    for k, one in enumerate(_series()):
        np.savetxt(folder / f"NYU_005000{k}_rois_cc200.1D", one, "%.4g", "\t", header="#1\t#2\t#3", comments="")
    rows = [",Unnamed: 0,SUB_ID,X,subject,SITE_ID,FILE_ID,DX_GROUP,FIQ,NOTE"]
    rows += [f'{k},{k},5000{k},{k},5000{k},NYU,NYU_005000{k},{1 + k % 2},-9999,"a, b"' for k in range(3)]
    return ["\n".join([*rows, "9,9,50009,9,50009,NYU,no_filename,1,100,"]).encode()]


def _bids_folder(folder: Path) -> None:
    (folder / "sub-01" / "func").mkdir(parents=True, exist_ok=True)
    (folder / "participants.tsv").write_text(_PEOPLE)


def _lay_bids(folder: Path) -> Seeds:
    _bids_folder(folder)
    rows = "\n".join("\t".join(map(str, row)) for row in _series()[0])
    missing = "n/a" + rows[rows.index("\t") :]
    return [("A\tB\tC\n" + rows).encode(), ("A\tB\tC\n" + missing).encode()]


def _cifti_bytes(*axes: Any) -> bytes:
    import nibabel

    values = _matrices()[0] if len({len(axis) for axis in axes}) == 1 else _series()[0]
    return bytes(nibabel.Cifti2Image(values, axes).to_bytes())


def _lay_cifti(folder: Path) -> Seeds:
    import nibabel

    _bids_folder(folder)
    places = [np.array([[k, 0, 0]]) for k in range(3)]
    parcels = nibabel.cifti2.ParcelsAxis(list("ABC"), places, [{} for _ in range(3)], np.eye(4), (4, 4, 4), {})
    return [_cifti_bytes(nibabel.cifti2.SeriesAxis(0, 2, 9), parcels), _cifti_bytes(parcels, parcels)]


_XML = [
    b"<!DOCTYPE a [<!ENTITY x \"xxxxxxxxxx\">]>", b"<!ENTITY y SYSTEM \"file:///etc/passwd\">", b"&x;&x;", b"<CIFTI>",
    b"</Matrix>", b"<MatrixIndicesMap ", b"AppliesToMatrixDimension=\"0\"", b"CIFTI_INDEX_TYPE_PARCELS", b"<Parcel ",
    b"CIFTI_INDEX_TYPE_SERIES", b"VolumeDimensions=\"4,4,4\"", b"NumberOfSeriesPoints=\"9\"", b"<VoxelIndicesIJK>",
]  # fmt: skip


def _lay_image(folder: Path) -> Seeds:
    import nibabel

    func = folder / "sub-01" / "func"
    _bids_folder(folder)
    labels = np.zeros((3, 2, 2), dtype=np.int32) + np.arange(1, 4, dtype=np.int32)[:, None, None]
    nibabel.save(nibabel.Nifti1Image(labels, np.eye(4)), folder / "atlas.nii.gz")
    frames = _rng(1).normal(size=(20, 3))
    names = [f"{kind}_{axis}{more}" for kind in ("trans", "rot") for axis in "xyz" for more in _MOTION]
    names += ["csf", "white_matter", "global_signal", "cosine00"]
    rows = ["\t".join(map(str, row)) for row in _rng(2).normal(size=(20, len(names)))]
    stem = func / "sub-01_task-rest_desc-confounds_timeseries"
    stem.with_suffix(".tsv").write_text("\n".join(["\t".join(names), *rows]))
    stem.with_suffix(".json").write_text('{"csf": {"Method": "Mean"}}')
    data = np.zeros((3, 2, 2, 20)) + 100 + frames.T[:, None, None, :]
    image = nibabel.Nifti1Image(data, np.eye(4))
    image.header.set_zooms((1, 1, 1, 2.0))
    content = gzip.compress(image.to_bytes(), 1, mtime=0)
    (folder / _BOLD).write_bytes(content)
    return [content]


_MOTION = ("", "_derivative1", "_power2", "_derivative1_power2")
_BOLD = "sub-01/func/sub-01_task-rest_space-MNI152NLin2009cAsym_desc-preproc_bold.nii.gz"
_CONFOUNDS = "sub-01/func/sub-01_task-rest_desc-confounds_timeseries"


def _lay_confounds(folder: Path) -> Seeds:
    _lay_image(folder)
    return [(folder / f"{_CONFOUNDS}.tsv").read_bytes()]


def _lay_confounds_json(folder: Path) -> Seeds:
    _lay_image(folder)
    return [(folder / f"{_CONFOUNDS}.json").read_bytes()]


def _zipped_image(rng: Random, seeds: Sequence[bytes]) -> bytes:
    if rng.random() < 0.2:
        return raw(most=2)(rng, seeds)
    data = bytearray(gzip.decompress(rng.choice(seeds)))
    for _ in range(rng.randint(1, 3)):
        at, width = rng.randrange(0, 348), rng.choice((1, 2, 4))
        data[at : at + width] = (
            rng.randbytes(width) if rng.random() < 0.5 else (2 ** rng.randrange(16)).to_bytes(4, "little")[:width]
        )
    return gzip.compress(bytes(data), 1, mtime=0)


def _fmriprep(folder: Path) -> object:
    return _load(folder, atlas_image=folder / "atlas.nii.gz")


# ------------------------------------------------------------------------------------------------ what rmixup wrote


def _made(name: str, build: Callable[[Path], object], folder: Path) -> None:
    """Put what is costly to make into a folder; it is made once, and copied for every worker."""
    place = _KEPT / name
    with (_KEPT / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "done").exists():
            place.mkdir()
            build(place)
            (place / "done").touch()
    shutil.copytree(place, folder, dirs_exist_ok=True)


def _cohort(folder: Path) -> Path:
    _made("cohort", _build_cohort, folder)
    return folder / "cohort"


def _build_cohort(folder: Path) -> None:
    import pandas as pd

    from rmixup import simulate

    ds = simulate(n_subjects=6, n_nodes=3, n_frames=5, n_sites=2)
    about = pd.DataFrame({"AGE": np.arange(6.0), "SEX": list("mfmfmf"), "OK": [True] * 6}, index=list(ds.subjects))
    ds.join(about.rename_axis("subject")).save(folder / "cohort")


def _seal_networks(content: dict[str, Any]) -> bytes:
    from rmixup.data.store import _seal

    return json.dumps({**content, "seal": _seal(content)}, indent=1).encode()


def _lay_manifest(folder: Path) -> Seeds:
    return [(_cohort(folder) / "dataset.json").read_bytes()]


def _manifest(rng: Random, seeds: Sequence[bytes]) -> bytes:
    if rng.random() < 0.2:
        return raw()(rng, seeds)
    changed = tree(rng, json.loads(rng.choice(seeds)))
    changed.pop("seal", None) if isinstance(changed, dict) else None
    return _seal_networks(changed) if isinstance(changed, dict) else json.dumps(changed).encode()


def _networks_file(name: str) -> dict[str, Any]:
    """A file of a data folder, its checksum in the manifest made to fit."""

    def lay(folder: Path) -> Seeds:
        return [(_cohort(folder) / name).read_bytes()]

    def place(folder: Path, content: bytes) -> None:
        manifest = json.loads((folder / "cohort" / "dataset.json").read_bytes())
        manifest.pop("seal")
        manifest["files"][name] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
        (folder / "cohort" / name).write_bytes(content)
        (folder / "cohort" / "dataset.json").write_bytes(_seal_networks(manifest))

    return {"file": f"cohort/{name}", "lay": lay, "place": place}


def _networks(folder: Path) -> object:
    return _load(folder / "cohort", verify=True)


_SPEC_WORDS = (
    "[data]", "[split]", "[protocol]", "[grid]", "[[grid.methods]]", "path", "preset", "target", "grid.methods", "= [",
    "name =", "{name = 'rmixup', alpha = 0.5}", "'abide-overall'", "sizes = [0.7, 0.1, 0.2]", "inf", "nan",
    "1979-05-27",
    "0xff", "'''", '"""', "\\u0000", "repeats = 0", "frames = 2", "options = {a = [1, 'b']}", "baselines = []",
    "a.b.c =",
    "nodes = ['x']", "lengths = [9]", "99999999999999999999", "[" * 50, "{a=" * 50, "[" * 3000, "a." * 3000,
)  # fmt: skip


def _lay_spec(folder: Path) -> Seeds:
    from rmixup.study.spec import template

    full = template("s.toml").replace("\n# ", "\n").encode()
    short = b'data.path = "x.npz"\ngrid.methods = ["none", {name = "rmixup", alpha = 0.5}]\n'
    return [template("s.toml", quick=True).encode(), short, full]


def _spec(folder: Path) -> object:
    from rmixup.study.cells import DataIdentity, expand
    from rmixup.study.spec import check_names, read_spec

    spec = read_spec(folder / "s.toml")
    check_names(spec, ("none", "rmixup", "vmixup", "cmixup", "tangent"), ("transformer", "mlp"))
    small = spec.model_copy(update={"split": spec.split.model_copy(update={"repeats": 1, "folds": 2})})
    return len(expand(small, DataIdentity("0" * 64, subjects=9, groups=2)))


def _model(backbone: str, folder: Path) -> Path:
    _made(f"model-{backbone}", partial(_build_model, backbone), folder)
    return folder / "model"


def _build_model(backbone: str, folder: Path) -> None:
    from rmixup import simulate
    from rmixup.train.cohort import Settings, train
    from rmixup.train.folder import save_model
    from rmixup.train.protocol import Protocol

    task = "classification" if backbone == "linear" else "regression"
    ds = simulate(n_subjects=40, n_nodes=4, task=task)
    trained = train(ds, Settings(backbone, protocol=Protocol(epochs=1)))
    save_model(folder / "model", trained)


def _lay_card(backbone: str, folder: Path) -> Seeds:
    return [(_model(backbone, folder) / "model.json").read_bytes()]


def _resealed(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """A sealed file of other content."""
    from rmixup.files import seal

    if rng.random() < 0.15:
        return raw()(rng, seeds)
    changed = tree(rng, json.loads(rng.choice(seeds)))
    try:
        changed.pop("sha256", None)
        return seal(changed)
    except (ValueError, AttributeError, TypeError, UnicodeEncodeError):
        return json.dumps(changed).encode()


def _lay_weights(folder: Path) -> Seeds:
    return [(_model("linear", folder) / "model.safetensors").read_bytes()]


def _place_weights(folder: Path, content: bytes) -> None:
    from rmixup.files import seal

    card = json.loads((folder / "model" / "model.json").read_bytes())
    card.pop("sha256")
    card["weights"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    (folder / "model" / "model.safetensors").write_bytes(content)
    (folder / "model" / "model.json").write_bytes(seal(card))


def _use_model(folder: Path) -> object:
    from rmixup import simulate
    from rmixup.train.folder import load_model

    predictor = load_model(folder / "model")
    return repr(predictor), predictor.predict(simulate(n_subjects=5, n_nodes=4)).values.shape


# ------------------------------------------------------------------------------------------------ studies


def _study(folder: Path) -> Any:
    from rmixup import simulate
    from rmixup.study import work
    from rmixup.study.project import Settings, begin
    from rmixup.study.spec import parse_spec

    simulate(n_subjects=30, n_nodes=4, n_frames=20, n_sites=2).save(folder / "data")
    text = f"data.path = {str(folder / 'data')!r}\nsplit.repeats = 2\ngrid.methods = ['none']\ngrid.backbones = ['mlp']"
    spec = parse_spec(text + "\ngrid.baselines = []\nprotocol.epochs = 1")
    return begin(folder / "study", spec, work.identify(spec.data), Settings(device="cpu"), "rmixup.study.work")


def _build_done(folder: Path) -> None:
    from rmixup.study.results import Failure
    from rmixup.study.runner import run
    from rmixup.study.work import work

    study = _study(folder)
    run(study, work)
    study.store.fail(study.cells[1], Failure("divergence", "x"))


def _lay_study(folder: Path) -> Seeds:
    _made("done", _build_done, folder)
    return [(folder / "study" / "study.json").read_bytes()]


def _open_study(folder: Path) -> object:
    from rmixup.study.project import open_study

    study = open_study(folder / "study")
    return study.spec, study.settings


def _cell_file(name: str) -> dict[str, Any]:
    """A file of a committed cell, its checksum in result.json made to fit."""
    from rmixup.files import seal

    def cell(folder: Path) -> Path:
        return next(path for path in sorted((folder / "study" / "cells").iterdir()) if path.is_dir())

    def lay(folder: Path) -> Seeds:
        _made("done", _build_done, folder)
        return [(cell(folder) / name).read_bytes()]

    def place(folder: Path, content: bytes) -> None:
        (cell(folder) / name).write_bytes(content)
        if name == "result.json":
            return
        body = json.loads((cell(folder) / "result.json").read_bytes())
        body.pop("sha256")
        body["files"][name] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
        (cell(folder) / "result.json").write_bytes(seal(body))

    return {"file": name, "lay": lay, "place": place}


def _read_cells(folder: Path) -> object:
    from rmixup.study.store import Store

    store = Store(folder / "study")
    found = [store.read(key) for key in sorted(store.done())]
    return [
        (one.cell, one.scores, one.sizes, one.notes, one.predictions, one.curves, one.timings, one.environment)
        for one in found
    ]


def _lay_failure(folder: Path) -> Seeds:
    _made("done", _build_done, folder)
    shutil.rmtree(folder / "study" / "cells")
    return [next((folder / "study" / "failed").iterdir()).read_bytes()]


def _place_failure(folder: Path, content: bytes) -> None:
    next((folder / "study" / "failed").iterdir()).write_bytes(content)


def _failures(folder: Path) -> object:
    from rmixup.study.store import Store

    return Store(folder / "study").failures()


def _lay_results(folder: Path) -> Seeds:
    _made("results", _build_results, folder)
    return [(folder / "results.jsonl").read_bytes()]


def _build_results(folder: Path) -> None:
    from rmixup.study import remote
    from rmixup.train.remote import run_packed

    study = _study(folder)
    remote.pack(study, folder / "packed")
    list(run_packed(folder / "packed", folder / "results.jsonl", "cpu"))
    shutil.rmtree(folder / "packed")


def _lines(rng: Random, seeds: Sequence[bytes]) -> bytes:
    if rng.random() < 0.15:
        return raw()(rng, seeds)
    lines = [json.loads(line) for line in rng.choice(seeds).splitlines()]
    k = rng.randrange(len(lines))
    lines[k] = tree(rng, lines[k])
    return encoded("\n".join(json.dumps(line, ensure_ascii=rng.random() < 0.5) for line in lines) + "\n")


def _tell(folder: Path) -> object:
    from rmixup.train.remote import read_results, tried_of

    return [tried_of(line) for line in read_results(folder / "results.jsonl")]


def _place_results(folder: Path, content: bytes) -> None:
    for name in ("cells", "failed"):
        shutil.rmtree(folder / "study" / name, ignore_errors=True)
    (folder / "results.jsonl").write_bytes(content)


def _take(folder: Path) -> object:
    from rmixup.study import remote
    from rmixup.study.project import open_study

    return remote.take(open_study(folder / "study"), folder / "results.jsonl")


def _behind(sealed: dict[str, Any], read: Callable[[Path], object], mutate: Mutate, share: int) -> Target:
    return Target(**sealed, read=read, mutate=mutate, share=share)


TARGETS: dict[str, Target] = {
    "text, one person": Target("s.csv", _lay_text, partial(_read_person, "s.csv"), table(), 270_000),
    "1D, one person": Target("s.1D", _lay_text, partial(_read_person, "s.1D", content="series"), table(), 200_000),
    "text folder": Target("sub-01.csv", _lay_folder, partial(_load, target="dx"), table(), 1_500),
    "labels": Target("participants.tsv", _lay_labels, partial(_load, target="dx", groups="site"), table(), 1_500),
    "node names": Target("rois.csv", _lay_names, lambda f: _load(f, nodes=f / "rois.csv"), table(), 1_000),
    "npy, one person": Target("s.npy", _lay_person_npy, partial(_read_person, "s.npy"), _each(npy_header), 170_000),
    "npy stack": Target("x.npy", _lay_npy, partial(_load, target="dx"), _each(npy_header), 3_000),
    "npz stack": Target("x.npz", _lay_npz, lambda f: _load(f / "x.npz"), npz, 15_000),
    "mat v5, one person": Target("s.mat", _lay_mat, partial(_read_person, "s.mat"), mat5, 150_000),
    "mat v5, CONN": Target("ROI_Subject001_Condition001.mat", _lay_conn, _load, mat5, 6_000),
    "mat v7.3": Target(
        "s.mat", _lay_mat73, partial(_read_person, "s.mat", variable="ROISignals"),
        _or(0.2, h5_objects, raw(_H5_WORDS, unit=4)), 8_000,
    ),
    "h5": Target("x.h5", _lay_h5, lambda f: _load(f / "x.h5"), _or(0.2, h5_objects, raw(_H5_WORDS, unit=4)), 6_000),
    "expression": Target("x.tsv", _lay_expression, partial(_genes, "x.tsv"), table(), 1_500),
    "expression, gzip": Target("x.tsv.gz", _lay_expression_gz, partial(_genes, "x.tsv.gz"), _zipped_table, 1_000),
    "expression, parquet": Target(
        "x.parquet", _lay_parquet, partial(_genes, "x.parquet"), _or(0.3, parquet_pandas, raw([b"PAR1"], tail=900)),
        1_500,
    ),
    "labels, parquet": Target(
        "participants.parquet", _lay_labels_parquet, partial(_load, target="dx"),
        _or(0.3, parquet_pandas, raw([b"PAR1"], tail=900)), 1_500,
    ),
    "h5ad": Target("x.h5ad", _lay_h5ad, partial(_genes, "x.h5ad"), _or(0.6, h5_objects, raw(_H5_WORDS, unit=4)), 500),
    "PCP phenotype": Target("Phenotypic_V1.csv", _lay_pcp, _load, table(["FILE_ID", "DX_GROUP", "ASD"]), 1_000),
    "BIDS series": Target(
        "sub-01/func/sub-01_atlas-A_stat-mean_timeseries.tsv", _lay_bids, partial(_load, target="dx"), table(), 1_500
    ),
    "CIFTI": Target("sub-01/func/sub-01_x.ptseries.nii", _lay_cifti, _load, raw(_XML, unit=2), 1_500),
    "fMRIPrep image": Target(_BOLD, _lay_image, _fmriprep, _zipped_image, 200),
    "fMRIPrep confounds": Target(f"{_CONFOUNDS}.tsv", _lay_confounds, _fmriprep, table(["trans_x", "csf"]), 200),
    "fMRIPrep json": Target(
        f"{_CONFOUNDS}.json", _lay_confounds_json, _fmriprep,
        _or(0.5, raw(), lambda r, s: json.dumps(tree(r, json.loads(s[0]))).encode()), 200,
    ),
    "data folder: manifest": Target("cohort/dataset.json", _lay_manifest, _networks, _manifest, 6_000),
    "data folder: matrices": _behind(_networks_file("matrices.npy"), _networks, _each(npy_header), 2_500),
    "data folder: series": _behind(_networks_file("series.npy"), _networks, _each(npy_header), 1_500),
    "data folder: offsets": _behind(_networks_file("offsets.npy"), _networks, _each(npy_header), 1_500),
    "data folder: people": _behind(_networks_file("participants.tsv"), _networks, table(["label"]), 1_500),
    "data folder: phenotype": _behind(_networks_file("phenotype.tsv"), _networks, table(), 1_500),
    "data folder: nodes": _behind(_networks_file("nodes.tsv"), _networks, table(["x", "y", "z"]), 1_500),
    "study spec": Target(
        "s.toml", _lay_spec, _spec, _or(0.5, raw([encoded(w) for w in _SPEC_WORDS]), table(_SPEC_WORDS)), 50_000
    ),
    "model card": Target("model/model.json", partial(_lay_card, "linear"), _use_model, _resealed, 1_000),
    "model card, network": Target("model/model.json", partial(_lay_card, "mlp"), _use_model, _resealed, 500),
    "model weights": Target(
        "model/model.safetensors", _lay_weights, _use_model, _each(safetensors), 1_000, place=_place_weights
    ),
    "study.json": Target("study/study.json", _lay_study, _open_study, _resealed, 10_000),
    "cell: result.json": _behind(_cell_file("result.json"), _read_cells, _resealed, 1_500),
    "cell: predictions": _behind(_cell_file("predictions.tsv"), _read_cells, table(), 1_500),
    "cell: curves": _behind(_cell_file("curves.tsv"), _read_cells, table(), 1_000),
    "cell: timings": Target(
        **_cell_file("timings.json"), read=_read_cells,
        mutate=_or(0.3, raw(), lambda r, s: json.dumps(tree(r, json.loads(s[0]))).encode()), share=1_000,
    ),
    "failure": Target("failure", _lay_failure, _failures, _resealed, 10_000, place=_place_failure),
    "remote results": Target("results.jsonl", _lay_results, _tell, _lines, 70_000),
    "remote results, taken": Target("results.jsonl", _lay_results, _take, _lines, 500, _place_results, writes=True),
}  # fmt: skip
