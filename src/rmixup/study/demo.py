"""A small whole study whose truth is known: a simulated cohort, its spec, and the folder they and the results lie in.

`DIR/data` is the cohort as `rmixup import` would have written it, `DIR/demo.toml` the spec, `DIR/study` the results.
May not be here: running it (see `rmixup.study.runner`), drawing.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rmixup.data import store
from rmixup.data.readers.simulate import simulate
from rmixup.errors import StoreError
from rmixup.study.files import write
from rmixup.study.project import ChangedError, Settings, Study, begin
from rmixup.study.spec import read_spec

WORK = "rmixup.study.work"
COHORT = {"n_subjects": 240, "n_nodes": 24, "n_frames": 80, "effect": 1.0, "n_sites": 4, "seed": 0}

SPEC = """\
# The study of `rmixup demo`, on SIMULATED people. `rmixup study new` writes a spec with every key explained.
name = "Demo on simulated people"

[data]
path = "data"

[split]
repeats = {repeats}          # so many splits, the same for every method

[protocol]
epochs = {epochs}           # the paper trains for 200 epochs at a rate of 1e-4
learning_rate = 5e-4
watch_test = true     # draws the test loss beside the training loss; it selects nothing

[grid]
methods = ["none", "vmixup", "cmixup", "rmixup", "tangent"]
baselines = ["linear", "tangent"]
"""


class Size(NamedTuple):
    """How much is done: splits of the data, and epochs of each training."""

    name: str
    repeats: int
    epochs: int


FULL, QUICK = Size("study", 10, 25), Size("study-quick", 2, 4)


def prepare(out: Path, quick: bool = False) -> Study:
    """Write cohort and spec below a folder and begin the study, or continue the one that is there.

    Parameters
    ----------
    out : folder; made if need be. What is there of the same demo is kept.
    quick : few splits and few epochs: shows that all works, and nothing about augmentation.
    """
    from rmixup.study import work

    size = QUICK if quick else FULL
    _place_cohort(out / "data")
    path = out / ("demo-quick.toml" if quick else "demo.toml")
    write(path, SPEC.format(repeats=size.repeats, epochs=size.epochs).encode())
    spec = read_spec(path)
    work.check(spec)
    folder = out / size.name
    try:
        return begin(folder, spec, work.identify(spec.data), Settings(device="cpu"), WORK)
    except ChangedError as error:
        raise StoreError(f"{error} For the demo: delete {folder}, or take another --out.") from error


def _place_cohort(folder: Path) -> None:
    """The cohort is the same each time; one that lies there is kept, so that its files stay as they are."""
    cohort = simulate(**COHORT)  # type: ignore[arg-type]
    if (folder / store.MANIFEST).is_file() and store.open_folder(folder).content_hash() == cohort.content_hash():
        return
    store.save(cohort, folder, overwrite=(folder / store.MANIFEST).is_file())
