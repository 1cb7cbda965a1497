"""The worked examples of docs/extend: each runs as it stands, and what it adds keeps the rules and does its work."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

import rmixup
from rmixup.augment import METHODS, RMixup
from rmixup.data.readers import READERS
from rmixup.models import BACKBONES
from rmixup.spd.metrics import METRICS
from rmixup.testing import check_augmentation, check_backbone

FOLDER = Path(__file__).parents[2] / "examples" / "extend"
EXAMPLES = sorted(FOLDER.glob("*.py"))
ALONE = {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture(autouse=True)
def registries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Examples can be imported, and what they add to a registry is taken out again."""
    monkeypatch.syspath_prepend(str(FOLDER))
    before = [(registry, dict(registry)) for registry in (METHODS, BACKBONES, METRICS, READERS)]
    yield
    for registry, entries in before:
        registry.clear()
        registry.update(entries)
    for path in EXAMPLES:
        sys.modules.pop(path.stem, None)


def test_there_is_one_of_each_kind() -> None:
    assert [path.stem for path in EXAMPLES] == ["backbone", "geometry", "method", "reader"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_runs_as_it_stands(path: Path) -> None:
    done = subprocess.run([sys.executable, "-W", "error", path], capture_output=True, text=True, check=False, env=ALONE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), "it says what came out"


def test_the_method_takes_edges_from_both_parents_as_often_as_its_label() -> None:
    import_module("method")
    check_augmentation("nodemix")
    x = torch.stack([torch.full((60, 60), float(k)) for k in range(40)])
    prepared = METHODS["nodemix"](per="pair").prepare(x, torch.arange(40.0), task="regression")
    plan = prepared.draw(np.arange(40), 0)
    mixed, _ = prepared.apply(plan)
    i, j = (torch.from_numpy(part)[:, None, None] for part in (plan.i, plan.j))
    assert bool(((mixed == i) | (mixed == j)).all())
    share = (mixed == j).double().mean((1, 2)).numpy()
    # 60 nodes chosen at √λ each: the share of edges scatters around λ by less than 2·√λ·√(1-√λ)/√60 ≤ 0.11.
    assert np.abs(share - plan.lam).mean() < 0.11


def test_the_geometry_has_its_ends_and_its_midpoint() -> None:
    import_module("geometry")
    A, B = (torch.cov(torch.randn(5, 40, generator=torch.Generator().manual_seed(k)).double()) for k in (0, 1))
    for t, end in ((0.0, A), (1.0, B)):
        torch.testing.assert_close(rmixup.spd.geodesic(A, B, t, metric="power"), end)
    middle = (rmixup.spd.sqrtm(A) + rmixup.spd.sqrtm(B)) / 2
    torch.testing.assert_close(rmixup.spd.geodesic(A, B, 0.5, metric="power"), middle @ middle)
    check_augmentation(RMixup(metric="power"))


def test_the_backbone_keeps_the_rules() -> None:
    import_module("backbone")
    check_backbone("systems", sizes=(5, 12), systems=3)


def test_the_reader_reads_by_name_and_refuses_what_it_cannot_read(tmp_path: Path) -> None:
    import_module("reader")
    folder, labels = tmp_path / "people", tmp_path / "labels.csv"
    folder.mkdir()
    for subject, weight in (("a", 0.5), ("b", -0.25)):
        (folder / f"{subject}.edges").write_text(f"L\tR\t{weight}\n", encoding="utf-8")
    labels.write_text("subject,group\nb,patient\na,control\n", encoding="utf-8")
    ds = rmixup.load(folder, layout="edges", labels=labels, target="group")
    assert ds.matrices is not None
    assert ds.subjects.tolist() == ["a", "b"]
    assert [ds.classes[code] for code in ds.y] == ["control", "patient"]  # type: ignore[index,union-attr]
    assert ds.matrices[:, 0, 1].tolist() == [0.5, -0.25]
    assert ds.matrices[:, 0, 0].tolist() == [1.0, 1.0]
    (folder / "b.edges").write_text("L\tR\n", encoding="utf-8")
    with pytest.raises(rmixup.FormatError, match=r"b\.edges: line 1 has 2 values, expected 3"):
        rmixup.load(folder, layout="edges", labels=labels, target="group")
