"""Trials in a folder, for machines that have torch and NumPy only.

    python -m rmixup.train.remote PACKED RESULTS.jsonl

`rmixup study pack` writes PACKED (networks as npz without pickle, trials as JSON) and `rmixup study take` reads the
results, one line a trial, appended as they come: what was finished when a machine went away is not lost. May not be
here: anything beyond torch and NumPy.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from rmixup import __version__
from rmixup.augment.labels import Labels
from rmixup.errors import FormatError, RMixupError
from rmixup.train import trial
from rmixup.train.feed import Problem
from rmixup.train.trial import Trial, Tried

Array = npt.NDArray[Any]
TRIALS = "trials.json"
_ROWS = ("train", "validation", "test")


def dump_problem(path: Path, problem: Problem) -> None:
    """Write a problem: the lower triangles of its networks, labels, groups."""
    rows, columns = np.tril_indices(problem.x.shape[-1])
    labels: dict[str, Any] = {
        "codes": problem.labels.codes,
        "numbers": problem.labels.numbers,
        "groups": None if problem.groups is None else np.asarray(problem.groups).astype(str),
    }
    np.savez(
        path,
        triangles=problem.x.numpy()[:, rows, columns],
        shape=np.array([problem.x.shape[-1], problem.labels.n_classes, problem.labels.flat]),
        **{name: value for name, value in labels.items() if value is not None},
    )


def load_problem(path: Path) -> Problem:
    """Undo `dump_problem`.

    >>> import tempfile
    >>> from rmixup.augment.labels import encode
    >>> path = Path(tempfile.mkdtemp()) / "a.npz"
    >>> dump_problem(path, Problem(torch.eye(3).repeat(2, 1, 1), encode([0, 1])))
    >>> load_problem(path).x.shape
    torch.Size([2, 3, 3])
    """
    with np.load(path, allow_pickle=False) as held:
        found = {name: held[name] for name in held.files}
    n, n_classes, flat = (int(value) for value in found["shape"])
    rows, columns = np.tril_indices(n)
    x = torch.empty(len(found["triangles"]), n, n)
    x[:, rows, columns] = x[:, columns, rows] = torch.from_numpy(found["triangles"])
    labels = Labels(found.get("codes"), found.get("numbers"), n_classes, bool(flat))
    return Problem(x, labels, found.get("groups"))


def dump_trials(path: Path, packs: Sequence[tuple[str, Mapping[str, Trial]]]) -> None:
    """Write which trials, by their names, belong to which file of networks."""
    told = [{"networks": name, "trials": {key: _plain(one) for key, one in trials.items()}} for name, trials in packs]
    path.write_text(json.dumps({"rmixup": __version__, "packs": told}), encoding="utf-8")


def _plain(one: Trial) -> dict[str, Any]:
    return {**asdict(one), **{name: np.asarray(getattr(one, name)).tolist() for name in _ROWS}}


def load_trials(path: Path) -> list[tuple[str, dict[str, Trial]]]:
    """Undo `dump_trials`."""
    packs = json.loads(path.read_text(encoding="utf-8"))["packs"]
    return [(pack["networks"], {key: _trial(one) for key, one in pack["trials"].items()}) for pack in packs]


def _trial(values: Mapping[str, Any]) -> Trial:
    return Trial(**{**values, **{name: np.array(values[name], np.int64) for name in _ROWS}})


def run_packed(folder: Path, results: Path, device: str | None = None, stack: int | str = "auto") -> Iterator[str]:
    """Run the trials of a folder that have no result yet, appending one JSON line each; yields what was done."""
    done = {line["key"] for line in read_results(results)} if results.exists() else set()
    here = environment(device)
    for name, packed in load_trials(folder / TRIALS):
        trials = {key: one for key, one in packed.items() if key not in done}
        if not trials:
            continue
        keys, problem = list(trials), load_problem(folder / name)
        since = time.perf_counter()
        for place, tried in trial.run(problem, list(trials.values()), device, stack):
            now = time.perf_counter()
            _append(results, {"key": keys[place], "seconds": now - since, "environment": here, **_told(tried)})
            since = now
            yield f"{keys[place]} {trials[keys[place]].method} {trials[keys[place]].backbone}"


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
    given = parser.parse_args(arguments)
    start = time.perf_counter()
    stack = given.stack if given.stack == "auto" else int(given.stack)
    for count, said in enumerate(run_packed(given.packed, given.results, given.device, stack), 1):
        sys.stderr.write(f"{time.perf_counter() - start:7.1f} s  {count} done: {said}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
