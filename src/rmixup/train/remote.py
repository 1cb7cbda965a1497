"""Trials in a folder, for machines that have torch and NumPy only.

    python -m rmixup.train.remote PACKED RESULTS.jsonl

`rmixup study pack` writes PACKED (networks as npz without pickle, trials as JSON; of one study or several) and `rmixup
study take` reads the results, one line a trial, appended as they come: what was finished when a machine went away is
not lost. Networks that did not travel are passed over, so a large folder can be sent in parts. May not be here:
anything beyond torch and NumPy.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from rmixup import __version__
from rmixup.augment.labels import Labels
from rmixup.errors import FormatError, RMixupError
from rmixup.files import write
from rmixup.train import trial
from rmixup.train.feed import Problem
from rmixup.train.trial import Trial, Tried

Array = npt.NDArray[Any]
# The names of a problem's files: "networks", several of them, and "labels".
Files = dict[str, Any]
TRIALS = "trials.json"
# What can be sent to a machine at once is limited, so large data sets go in parts.
PART_BYTES = 40 * 2**20
# A GPU is full with so many small networks (see docs/speed.md); more would only be longer on the way.
BLOCK = 40
_ROWS = ("train", "validation", "test")


def dump_problem(folder: Path, problem: Problem) -> Files:
    """Write a problem into a folder: the lower triangles of its networks, in parts, and its labels and groups.

    Files are named by their content and one that is there is kept, so studies of the same networks share them.
    """
    rows, columns = np.tril_indices(problem.x.shape[-1])
    triangles = problem.x.numpy()[:, rows, columns]
    many = max(1, PART_BYTES // triangles[:1].nbytes)
    parts = [triangles[start : start + many] for start in range(0, len(triangles), many)]
    labels: dict[str, Any] = {
        "codes": problem.labels.codes,
        "numbers": problem.labels.numbers,
        "groups": None if problem.groups is None else np.asarray(problem.groups).astype(str),
        "shape": np.array([problem.x.shape[-1], problem.labels.n_classes, problem.labels.flat]),
    }
    return {
        "networks": [_write(folder, "networks", {"triangles": part}) for part in parts],
        "labels": _write(folder, "labels", {name: value for name, value in labels.items() if value is not None}),
    }


def _write(folder: Path, kind: str, arrays: Mapping[str, Array]) -> str:
    """Write arrays under the name of their content, and return it."""
    said = hashlib.sha256()
    for name, value in arrays.items():
        said.update(f"{name} {value.dtype.str} {value.shape} ".encode() + np.ascontiguousarray(value).tobytes())
    path = folder / f"{kind}-{said.hexdigest()[:16]}.npz"
    if not path.exists():
        held = io.BytesIO()
        np.savez(held, **arrays)  # type: ignore[arg-type]
        write(path, held.getvalue())
    return path.name


def load_problem(folder: Path, files: Files) -> Problem:
    """Undo `dump_problem`.

    >>> import tempfile
    >>> from rmixup.augment.labels import encode
    >>> folder = Path(tempfile.mkdtemp())
    >>> files = dump_problem(folder, Problem(torch.eye(3).repeat(2, 1, 1), encode([0, 1])))
    >>> load_problem(folder, files).x.shape
    torch.Size([2, 3, 3])
    """
    found = _read(folder / files["labels"])
    n, n_classes, flat = (int(value) for value in found["shape"])
    rows, columns = np.tril_indices(n)
    triangles = np.concatenate([_read(folder / name)["triangles"] for name in files["networks"]])
    x = torch.empty(len(triangles), n, n)
    x[:, rows, columns] = x[:, columns, rows] = torch.from_numpy(triangles)
    labels = Labels(found.get("codes"), found.get("numbers"), n_classes, bool(flat))
    return Problem(x, labels, found.get("groups"))


def _read(path: Path) -> dict[str, Array]:
    with np.load(path, allow_pickle=False) as held:
        return {name: held[name] for name in held.files}


def dump_trials(path: Path, packs: Sequence[tuple[Files, Mapping[str, Trial]]]) -> None:
    """Write which trials, by their names, belong to which files; those that are there already stay.

    A trial of two studies has one name, so it is trained once.
    """
    told = json.loads(path.read_text(encoding="utf-8"))["packs"] if path.exists() else []
    for files, trials in packs:
        own = next((one for one in told if files.items() <= one.items()), None)
        if own is None:
            told.append(own := {**files, "trials": {}})
        own["trials"] |= {key: _plain(one) for key, one in trials.items()}
    write(path, json.dumps({"rmixup": __version__, "packs": told}).encode())


def _plain(one: Trial) -> dict[str, Any]:
    return {**asdict(one), **{name: np.asarray(getattr(one, name)).tolist() for name in _ROWS}}


def load_trials(path: Path) -> list[tuple[Files, dict[str, Trial]]]:
    """Undo `dump_trials`."""
    packs = json.loads(path.read_text(encoding="utf-8"))["packs"]
    files = [{name: pack[name] for name in ("networks", "labels")} for pack in packs]
    trials = [{key: _trial(one) for key, one in pack["trials"].items()} for pack in packs]
    return list(zip(files, trials, strict=True))


def _trial(values: Mapping[str, Any]) -> Trial:
    return Trial(**{**values, **{name: np.array(values[name], np.int64) for name in _ROWS}})


def run_packed(
    folder: Path,
    results: Path,
    device: str | None = None,
    stack: int | str = "auto",
    backbones: Container[str] | None = None,
) -> Iterator[str]:
    """Run the trials of a folder that have no result yet, appending one JSON line each; yields what was done.

    Parameters
    ----------
    folder : what `dump_problem` and `dump_trials` wrote; trials whose networks are not there are left, with a warning
    results : file of results; one that exists is continued
    device, stack : see `rmixup.train.trial.run`
    backbones : run the trials of these only; None: all
    """
    done = _done(results) if results.exists() else set()
    here = environment(device)
    for files, packed in load_trials(folder / TRIALS):
        wanted = {key: one for key, one in packed.items() if backbones is None or one.backbone in backbones}
        trials = {key: one for key, one in wanted.items() if key not in done}
        absent = [name for name in (*files["networks"], files["labels"]) if not (folder / name).is_file()]
        if trials and absent:
            warnings.warn(f"{len(trials)} trials are left: {', '.join(absent)} is not in {folder}", stacklevel=2)
        elif trials:
            for key, told in _run(load_problem(folder, files), trials, device, stack):
                _append(results, {"key": key, "environment": here, **told})
                yield f"{key} {trials[key].method} {trials[key].backbone}"


def _done(results: Path) -> set[str]:
    """The trials that have a result; a half-written line is cut off, lest the next be glued to it."""
    content = results.read_bytes()
    if not content.endswith(b"\n"):
        write(results, content[: content.rfind(b"\n") + 1])
    return {line["key"] for line in read_results(results)}


def _run(
    problem: Problem, trials: Mapping[str, Trial], device: str | None, stack: int | str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Trials' names and what came of them, block by block."""
    for keys in _blocks(trials):
        since = time.perf_counter()
        for place, tried in trial.run(problem, [trials[key] for key in keys], device, stack):
            now = time.perf_counter()
            yield keys[place], {"seconds": now - since, **_told(tried)}
            since = now


def _blocks(trials: Mapping[str, Trial]) -> Iterator[list[str]]:
    """Trials that the engine can train at once, few enough that a machine that goes away takes little with it."""
    alike: dict[tuple[str, int], list[str]] = {}
    for key, one in trials.items():
        alike.setdefault((one.family, len(one.train)), []).append(key)
    for keys in alike.values():
        yield from (keys[start : start + BLOCK] for start in range(0, len(keys), BLOCK))


def _told(tried: Tried | RMixupError) -> dict[str, Any]:
    if isinstance(tried, RMixupError):
        return {"refused": " ".join(str(tried).split())}
    values, predictions = tried.to_plain()
    finite = [[value if np.isfinite(value) else None for value in row] for row in predictions.tolist()]
    return {"tried": values, "predictions": finite}


def _append(path: Path, line: Mapping[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(line, allow_nan=False) + "\n")
        stream.flush()
        os.fsync(stream.fileno())


def read_results(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of results; a last line that a dying machine left half written is passed over."""
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            told = dict(json.loads(line))
            told["key"] = _text(told["key"])
            yield told
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise FormatError(
                f"{path}, line {number}: expected a result as JSON, but {type(error).__name__}: {error}: "
                "run the trials again"
            ) from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {value!r:.60}")
    return value


def tried_of(line: Mapping[str, Any]) -> Tried | RMixupError:
    """What a line tells."""
    try:
        if "refused" in line:
            return RMixupError(_text(line["refused"]))
        float(line["seconds"]), [_text(value) for value in line["environment"].values()]
        rows = [[np.nan if value is None else value for value in row] for row in line["predictions"]]
        return Tried.from_plain(line["tried"], np.array(rows, dtype=np.float64))
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        raise FormatError(
            f"the result of {line['key']!r:.60} is not one ({type(error).__name__}: {error}); run the trials again"
        ) from error


def environment(device: str | None) -> dict[str, str]:
    """Versions and machine, for the record of each result."""
    where = device or ("cuda" if torch.cuda.is_available() else "cpu")
    return {
        "rmixup": __version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "numpy": np.__version__,
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if where.startswith("cuda") else where,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a packed folder from the command line."""
    parser = argparse.ArgumentParser(prog="python -m rmixup.train.remote", description=str(__doc__).partition("\n")[0])
    parser.add_argument("packed", type=Path, help="folder that `rmixup study pack` wrote")
    parser.add_argument("results", type=Path, help="file of results; one that exists is continued")
    parser.add_argument("--device", default=None, help="cuda or cpu; a GPU where there is one")
    parser.add_argument("--stack", default="auto", help="trials trained at once; auto follows the GPU's memory")
    parser.add_argument("--backbones", nargs="+", default=None, help="run the trials of these only; all")
    given = parser.parse_args(arguments)
    start = time.perf_counter()
    stack = given.stack if given.stack == "auto" else int(given.stack)
    for count, said in enumerate(run_packed(given.packed, given.results, given.device, stack, given.backbones), 1):
        sys.stderr.write(f"{time.perf_counter() - start:7.1f} s  {count} done: {said}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
