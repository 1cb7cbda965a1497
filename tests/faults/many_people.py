"""A study of many people in one process: `many_people.py FOLDER PEOPLE NODES`; prints what each step took at most.

Import, check, a study's door, prepare with a cache, and a pass of mixing and training over everybody. RMIXUP_AS limits
the address space in bytes.
"""

import json
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rmixup import keys
from rmixup.data.store import Writer

BATCH = 64


def people(count: int, nodes: int) -> Iterator[tuple[str, Any]]:
    """Correlation matrices, one at a time."""
    for k in range(count):
        series = keys.generator(0, "person", k).normal(size=(2 * nodes, nodes))
        series[:, : nodes // 2] += (1 + k % 2) * series[:, :1]
        yield f"s{k:06d}", np.corrcoef(series.T).astype(np.float32)


def write(folder: Path, count: int, nodes: int) -> None:
    with Writer(folder) as writer:
        for name, matrix in people(count, nodes):
            writer.add(name, matrix=(matrix + matrix.T) / 2)
        writer.commit(y=["ab"[k % 2] for k in range(count)])


def peak() -> int:
    """Bytes of memory that this process took at most, since it was last asked."""
    status = Path("/proc/self/status").read_text()
    found = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    Path("/proc/self/clear_refs").write_text("5")
    return int(found.split()[1]) << 10


def main() -> None:
    folder, count, nodes = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    import torch

    from rmixup import RMixup
    from rmixup.cli import run
    from rmixup.data.store import open_folder
    from rmixup.study import work
    from rmixup.study.spec import parse_spec
    from rmixup.train.engine import fit
    from rmixup.train.feed import Problem, Run
    from rmixup.train.protocol import Protocol

    torch.set_num_threads(1)
    if "RMIXUP_AS" in os.environ:
        limit = int(os.environ["RMIXUP_AS"])
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    told = {"start": peak()}
    write(folder / "cohort", count, nodes)
    told["import"] = peak()
    assert run(["check", str(folder / "cohort")]) == 0
    told["check"] = peak()
    spec = parse_spec(f'data.path = {str(folder / "cohort")!r}\ngrid.methods = ["rmixup"]')
    work.identify(spec.data)
    work.refuse(spec.data)
    told["identify"] = peak()
    ds = open_folder(folder / "cohort")
    prepared = RMixup().prepare(ds.matrices, ds.y, cache=folder / "cache")
    told["prepare"] = peak()
    for first in range(0, count, BATCH):
        rows = np.arange(first, min(first + BATCH, count))
        x, _ = prepared.apply(prepared.draw(rows, (0, "pass", first)))
        assert bool(x.isfinite().all())
    told["mix"] = peak()
    material = work.material(spec.data, work_cell(spec, ds))
    problem = Problem(material.problem.x, material.problem.labels, None)
    order = keys.generator(0, "split").permutation(count)
    train, validation, test = np.split(np.sort(order), [int(0.7 * count), int(0.8 * count)])
    fit(
        problem,
        [Run(train, validation, test, RMixup(), 0)],
        "mlp",
        options={"hidden": [16]},
        protocol=Protocol(epochs=1, batch_size=BATCH),
        device="cpu",
    )
    told["train"] = peak()
    sys.stdout.write("@" + json.dumps(told))


def work_cell(spec: Any, ds: Any) -> Any:
    from rmixup.study.cells import DataIdentity, expand

    return next(cell for cell in expand(spec, DataIdentity("0" * 64, len(ds), 0)) if not cell.is_baseline)


if __name__ == "__main__":
    main()
