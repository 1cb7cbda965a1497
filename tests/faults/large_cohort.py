"""Train or mix networks of a folder: `large_cohort.py train|mix FOLDER PEOPLE NODES LARGE`.

Files from LARGE bytes on stay on disk. Prints by how many bytes the peak of resident memory is higher than for a
quarter of the people. A process of its own, because a peak is a process's.
"""

import sys
from pathlib import Path

import torch
from many_people import peak, write

from rmixup import RMixup, keys
from rmixup.augment import paging
from rmixup.cli import run
from rmixup.data.store import open_folder

HELD = paging.LARGE


def train(folder: Path, out: str) -> None:
    """One epoch, by the command line."""
    order = ["train", str(folder), "--backbone", "mlp", "--epochs", "1", "--device", "cpu", "--quiet"]
    assert run([*order, "--out", str(folder.parent / out)]) == 0


def mix(folder: Path, cache: str) -> None:
    """Logarithms on disk, and a pass of draws through all of them."""
    ds = open_folder(folder)
    prepared = RMixup().prepare(ds.matrices, ds.y, cache=folder.parent / cache if paging.LARGE < HELD else None)
    order = keys.generator(0, "order").permutation(len(ds))
    for first in range(0, len(ds), 16):
        x, _ = prepared.apply(prepared.draw(order[first : first + 16], (0, "pass", first)))
        assert bool(x.isfinite().all())


def main() -> None:
    work, folder = {"train": train, "mix": mix}[sys.argv[1]], Path(sys.argv[2])
    count, nodes = int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(1)
    write(folder / "few", count // 4, nodes)
    write(folder / "many", count, nodes)
    paging.LARGE = int(sys.argv[5])
    for out in ("model", "model-again"):  # the first time, libraries set themselves up
        work(folder / "few", out)
        few = peak()
    work(folder / "many", "model-of-many")
    sys.stdout.write(f"@{peak() - few}")


if __name__ == "__main__":
    main()
