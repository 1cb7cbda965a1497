"""What is known of the nodes beside the data: their systems (networks, lobes, pathways) and where they lie.

Systems come from a table, a mapping, or the names of the nodes; coordinates from a table. May not be here: models,
torch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rmixup.data.labels import shown
from rmixup.errors import DataError, FormatError, StoreError
from rmixup.explain.maps import Floats

if TYPE_CHECKING:
    import pandas as pd

FROM_NAMES, NONE = "names", "none"
# The columns that are taken where none is named, in this order.
NODE_COLUMNS = ("node", "name", "region", "roi", "label")
SYSTEM_COLUMNS = ("system", "network", "module", "group", "lobe", "pathway")
AXES = ("x", "y", "z")
# "7Networks_LH_Default_PFC_3" is the form of Schaefer's and Yeo's parcellations, "Visual-01" that of numbered lists.
_SCHAEFER = re.compile(r"^(?:\d+Networks_)?[LR]H_([A-Za-z]+)_")
_NUMBERED = re.compile(r"^(.*?\D)[-_. ]?\d+$")
# Schaefer's regions often come with subcortical ones beside them, whose names have another form.
_MOST = 0.8
_OTHER = "other"
_WHENCE = "what the names of the nodes begin with"

Systems = str | Path | Mapping[str, str] | Sequence[str] | None


def systems_of(nodes: Sequence[str], systems: Systems = FROM_NAMES) -> tuple[tuple[str, ...] | None, str]:
    """The system of each node (n,), or None; and in words where they come from.

    Parameters
    ----------
    nodes : (n,) names
    systems : "names", "none", path, mapping or sequence
        "names": what the names begin with ("Visual-01", "7Networks_LH_Default_PFC_3"), where that makes groups.
        A path: a table (.tsv, .csv) of nodes and systems; "atlas.tsv:Yeo17" names the column of systems.
        A mapping from node to system, or one system a node in their order.

    >>> systems_of(["Visual-01", "Visual-02", "Default-01", "Default-02"])
    (('Visual', 'Visual', 'Default', 'Default'), 'what the names of the nodes begin with')
    >>> systems_of(["PCC", "V1"])[0]
    """
    if systems is None or systems == NONE:
        return None, "none asked for"
    if systems == FROM_NAMES:
        found = _from_names(nodes)
        return found, "none: the names of the nodes show no groups" if found is None else _WHENCE
    if isinstance(systems, str | Path):
        return _systems_in(nodes, str(systems)), f"the table {Path(str(systems)).name}"
    if isinstance(systems, Mapping):
        return _looked_up(nodes, systems, "systems"), "given"
    if len(systems) != len(nodes):
        raise DataError(f"expected one system for each of {len(nodes)} nodes, got {len(systems)}")
    return tuple(map(str, systems)), "given"


def coordinates_of(nodes: Sequence[str], path: str | Path) -> Floats:
    """(n, 3) where nodes lie, from the columns x, y, z of a table (.tsv, .csv) of nodes."""
    path = Path(path)
    frame = _read(path)
    folded = {str(name).casefold(): str(name) for name in reversed(list(frame.columns))}
    absent = [axis for axis in AXES if axis not in folded]
    if absent:
        raise DataError(
            f"{path}: has no column {shown(absent)}; expected node, x, y, z, found {shown(frame.columns, 20)}"
        )
    rows = _by_node(path, frame)
    columns = [_looked_up(nodes, rows[folded[axis]], str(path), axis) for axis in AXES]
    try:
        found = np.array(columns, dtype=np.float64).T
    except ValueError as error:
        raise DataError(f"{path}: x, y and z must be numbers ({error})") from error
    if not np.isfinite(found).all():
        raise DataError(f"{path}: x, y and z must be finite; those of {_first(nodes, found)} are not")
    return found


def _first(nodes: Sequence[str], found: Floats) -> str:
    return str(nodes[int(np.flatnonzero(~np.isfinite(found).all(1))[0])])


# ---- systems


def _from_names(nodes: Sequence[str]) -> tuple[str, ...] | None:
    """Groups by name, where there are at least two and they have two nodes or more on average."""
    for form, share in ((_SCHAEFER, _MOST), (_NUMBERED, 1.0)):
        matches = [form.match(name) for name in nodes]
        found = tuple(match[1].rstrip("-_. ") if match else _OTHER for match in matches)
        if np.mean([bool(match) for match in matches]) >= share and 2 <= len(set(found)) <= len(nodes) / 2:
            return found
    return None


def _systems_in(nodes: Sequence[str], text: str) -> tuple[str, ...]:
    path, column = Path(text), None
    if not path.exists() and ":" in text:
        name, column = text.rsplit(":", 1)
        path = Path(name)
    frame = _read(path)
    rows = _by_node(path, frame)
    system = _column(path, list(rows), column, SYSTEM_COLUMNS, "the systems")
    return _looked_up(nodes, rows[system], str(path))


# ---- tables


def _read(path: Path) -> pd.DataFrame:
    import pandas as pd

    if not path.is_file():
        raise StoreError(
            f"{path}: there is no such table of nodes; give a file with a column of nodes, and their system, or x, y, z"
        )
    separator = "," if path.suffix.lower() == ".csv" else "\t"
    try:
        frame = pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (ValueError, UnicodeDecodeError) as error:
        raise FormatError(f"{path}: is not a table of nodes ({error})") from error
    if frame.shape[1] < 2:
        raise FormatError(f"{path}: expected two columns (node, system) or more, found {shown(frame.columns)}")
    return frame


def _by_node(path: Path, frame: pd.DataFrame) -> dict[str, dict[str, str]]:
    """Column -> node -> text."""
    node = _column(path, list(map(str, frame.columns)), None, NODE_COLUMNS, "the nodes")
    repeated = frame[node][frame[node].duplicated()].unique().tolist()
    if repeated:
        raise DataError(f"{path}: these nodes have several rows: {shown(repeated)}; keep one of each")
    names = frame[node].tolist()
    return {str(name): dict(zip(names, frame[name], strict=True)) for name in frame.columns if name != node}


def _column(path: Path, names: Sequence[str], asked: str | None, usual: Sequence[str], what: str) -> str:
    """The column asked for, or one of a usual name, or the only (for nodes the first) one."""
    if asked is not None:
        if asked not in names:
            raise DataError(f"{path}: has no column {asked!r}; it has {shown(names, 20)}")
        return asked
    folded = {name.casefold(): name for name in reversed(names)}
    found = [folded[name] for name in usual if name in folded]
    if not found and len(names) > 1 and usual is SYSTEM_COLUMNS:
        raise DataError(f"{path}: which column holds {what}: {shown(names, 20)}? Name it: --systems {path}:COLUMN")
    return found[0] if found else names[0]


def _looked_up(nodes: Sequence[str], known: Mapping[str, Any], where: str, what: str = "system") -> tuple[str, ...]:
    missing = [name for name in nodes if not str(known.get(name, "")).strip()]
    if missing:
        raise DataError(
            f"{where}: {len(missing)} of {len(nodes)} nodes have no {what} ({shown(missing)}): add them, spelled as in "
            "the data"
        )
    return tuple(str(known[name]).strip() for name in nodes)
