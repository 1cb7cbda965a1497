"""Public cohorts, fetched with the tools of the field and verified before they are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from rmixup.data.networks import Networks
from rmixup.data.readers import import_folder, pcp
from rmixup.data.readers._files import need
from rmixup.errors import DataError

# What the literature uses of ABIDE I: everybody with 100 frames or more; 1 is autism.
MIN_FRAMES = 100
COHORT = {"1": 493, "0": 516}


def fetch_abide(
    out: str | Path,
    atlas: str = "cc200",
    cache: str | Path | None = None,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Networks:
    """Fetch ABIDE I (C-PAC, no filter, no global signal) with nilearn, verify the cohort, write its series to `out`."""
    folder = _download(atlas, None if cache is None else Path(cache))
    short = verify_cohort(folder, atlas)
    return import_folder(folder, out, "pcp", overwrite, progress, atlas=atlas, drop_subjects=short or None)


def _download(atlas: str, cache: Path | None) -> Path:
    datasets = need("nilearn.datasets", Path("ABIDE"))
    try:
        datasets.fetch_abide_pcp(
            data_dir=cache, pipeline="cpac", derivatives=[f"rois_{atlas}"], quality_checked=False, verbose=0
        )
        folder = Path(datasets.get_data_dirs(cache)[0]) / "ABIDE_pcp"
    except KeyError:
        raise DataError(
            f"ABIDE has no atlas {atlas!r}; there are: aal, cc200, cc400, dosenbach160, ez, ho, tt"
        ) from None
    except OSError as error:
        raise DataError(
            f"ABIDE cannot be fetched ({' '.join(str(error).split())[:200]}); check the connection and try again: what "
            "was fetched is kept"
        ) from None
    return folder


def verify_cohort(folder: Path, atlas: str) -> list[str]:
    """Check that the people with 100 frames or more are the 1009 of the literature; return the ids of the others."""
    found = pcp.read(folder, atlas=atlas)
    if found.table is None or pcp.LABEL not in found.table.columns:
        raise DataError(f"{folder}: has no phenotype table with DX_GROUP; remove the folder and fetch again")
    frames = {person.subject: len(person.values) for person in found.stream(frozenset(found.subjects))}
    kept = [name for name, t in frames.items() if t >= MIN_FRAMES]
    counts = Counter(found.table[pcp.LABEL].reindex(kept).tolist())
    if counts != COHORT:
        raise DataError(
            f"{folder}: expected {sum(COHORT.values())} people with {MIN_FRAMES} frames or more, {COHORT['1']} with "
            f"autism and {COHORT['0']} controls; found {len(kept)}, {counts['1']} and {counts['0']}: the download "
            "is not complete; remove the folder and fetch again"
        )
    return [name for name, t in frames.items() if t < MIN_FRAMES]
