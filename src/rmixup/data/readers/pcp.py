"""ABIDE as the Preprocessed Connectomes Project gives it: `<FILE_ID>_rois_<atlas>.1D` and a phenotype table.

In its table DX_GROUP is 1 for people with autism and 2 for controls; the label `ASD` made here is 1 for autism.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

import pandas as pd

from rmixup.data.labels import shown
from rmixup.data.readers._files import existing
from rmixup.data.readers._people import Found, Person, refuse_twice
from rmixup.data.readers._phenotype import MISSING, join, read_table
from rmixup.data.readers.tables import read_person
from rmixup.errors import DataError

DESCRIPTION = "<FILE_ID>_rois_<atlas>.1D with Phenotypic*.csv (ABIDE, Preprocessed Connectomes Project)"
OPTIONS = ("atlas",)

_NAME = re.compile(r"(?P<id>.+)_rois_(?P<atlas>[^.]+)\.1D")
LABEL = "ASD"  # 1 is autism
_DX, _SITE = "DX_GROUP", "SITE_ID"
# The project writes -9999 for what is not known.
_MISSING = MISSING | {"-9999", "-9999.0"}
# nilearn keeps the table two folders above the series (ABIDE_pcp/cpac/nofilt_noglobal).
_LEVELS = 3


def recognises(path: Path) -> bool:
    """A folder with files named as the project names them, itself or one or two folders below."""
    return path.is_dir() and next(_files(path), None) is not None


def _files(folder: Path) -> Iterator[Path]:
    for depth in ("*", "*/*", "*/*/*"):
        yield from (file for file in sorted(folder.glob(depth)) if _NAME.fullmatch(file.name))


def read(
    path: Path, *, labels: str | Path | None = None, id_column: str | None = None, atlas: str | None = None
) -> Found:
    """Find the people of a PCP folder; `atlas` is needed where it has several."""
    files = _of_atlas(path, list(_files(path)), atlas)
    ids = [_part(file, "id") for file in files]
    refuse_twice(ids, files)
    people = dict(zip(ids, files, strict=True))
    table_path = existing(Path(labels)) if labels else _find_phenotype(path)
    table = None
    if table_path is not None:
        table = with_asd(join(read_table(table_path, _MISSING), table_path, ids, id_column), table_path)

    def stream(wanted: Collection[str]) -> Iterator[Person]:
        for subject, file in people.items():
            if subject in wanted:
                yield read_person(file, subject, "series")

    known = () if table is None else tuple(table.columns)
    return Found(
        layout="pcp",
        subjects=tuple(people),
        stream=stream,
        files=(*files, *(() if table_path is None else (table_path,))),
        table=table,
        table_path=table_path,
        target=LABEL if LABEL in known else None,
        groups=_SITE if _SITE in known else None,
        steps=(("atlas", {"name": _part(files[0], "atlas")}),),
    )


def _part(file: Path, what: str) -> str:
    match = _NAME.fullmatch(file.name)
    assert match is not None
    return match[what]


def _of_atlas(path: Path, files: list[Path], atlas: str | None) -> list[Path]:
    atlases = sorted({_part(file, "atlas") for file in files})
    if atlas is None and len(atlases) > 1:
        raise DataError(
            f"{path}: holds series of several atlases ({shown(atlases)}); choose one with --atlas {atlases[0]}"
        )
    chosen = atlas or atlases[0]
    if chosen not in atlases:
        raise DataError(f"{path}: has no series of atlas {chosen!r}; there are: {shown(atlases)}")
    return [file for file in files if _part(file, "atlas") == chosen]


def _find_phenotype(path: Path) -> Path | None:
    places = [
        path,
        *(place for place in sorted(path.iterdir()) if place.is_dir()),
        *list(path.resolve().parents)[:_LEVELS],
    ]
    for place in places:
        found = sorted(place.glob("Phenotypic*.csv"))
        if len(found) > 1:
            raise DataError(
                f"{place}: has several phenotype tables ({shown(p.name for p in found)}); choose with --labels"
            )
        if found:
            return found[0]
    return None


def with_asd(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """The table with `ASD` made from DX_GROUP: 1 (autism) stays 1, 2 (control) becomes 0.

    >>> table = pd.DataFrame({"DX_GROUP": ["1", "2"]}, index=["a", "b"])
    >>> with_asd(table, Path("Phenotypic.csv"))["ASD"].tolist()
    ['1', '0']
    """
    if _DX not in table.columns:
        return table
    made = table[_DX].map({"1": "1", "2": "0", "1.0": "1", "2.0": "0"})
    odd = sorted(set(table[_DX].dropna()) - {"1", "2", "1.0", "2.0"})
    if odd:
        raise DataError(f"{path}, column {_DX!r}: expected 1 (autism) or 2 (control), found {shown(odd)}; correct it")
    if LABEL in table.columns and bool((table[LABEL].notna() & made.notna() & (table[LABEL] != made)).any()):
        wrong = table.index[table[LABEL].notna() & made.notna() & (table[LABEL] != made)]
        raise DataError(
            f"{path}: column {LABEL!r} contradicts {_DX} (where 1 is autism) for {len(wrong)} subjects "
            f"({shown(wrong)}): the labels are inverted or damaged; remove or correct the column"
        )
    return table.assign(**{LABEL: made})
