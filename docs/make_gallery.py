"""Draw docs/_static/gallery/*.png: what each augmentation method makes of the same two simulated people.

    python docs/make_gallery.py

Everything comes from `rmixup.simulate` and fixed keys, so anybody gets the same pictures.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from rmixup.augment import METHODS, Plan
from rmixup.data.readers.simulate import simulate
from rmixup.report.swelling import STYLE

STATIC = Path(__file__).parent / "_static" / "gallery"
LAM = 0.5
# Methods that drop something show more of it than their default of 0.1.
SETTINGS: dict[str, dict[str, Any]] = {"dropnode": {"rate": 0.2}, "dropedge": {"rate": 0.2}}


def pair(y: np.ndarray[Any, Any]) -> tuple[int, int]:
    """Two people: of different labels where the method mixes labels, so that every method has the same two."""
    return int(np.flatnonzero(y == 0)[0]), int(np.flatnonzero(y == 1)[0])


def draw(name: str, x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> None:
    a, b = pair(y)
    prepared = METHODS[name](**SETTINGS.get(name, {})).prepare(x, y)
    words = prepared.draw([a], key=(0, "gallery")).words
    made = prepared.apply(Plan([a], [b], LAM, words=words))[0][0].numpy()
    panels = {"person A": x[a], "person B": x[b], "made": made, "made − halfway between": made - (x[a] + x[b]) / 2}
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.4, 2.55), layout="constrained")
        for axes, (title, S) in zip(figure.subplots(1, 4), panels.items(), strict=True):
            image = axes.imshow(S, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
            axes.set_title(title, fontsize=10)
            if title != "made − halfway between":
                axes.set_xlabel(f"mean diagonal {np.diagonal(S).mean():.2f}", fontsize=9)
        figure.colorbar(image, ax=figure.axes, shrink=0.75, aspect=14, pad=0.02, ticks=[-1, 0, 1]).outline.set_visible(
            False
        )
        figure.savefig(STATIC / f"{name}.png", dpi=110, pil_kwargs={"optimize": True})


def main() -> None:
    STATIC.mkdir(exist_ok=True)
    ds = simulate(n_subjects=60, n_nodes=40, n_frames=80)
    assert ds.matrices is not None
    assert ds.y is not None
    for name in METHODS:
        draw(name, np.asarray(ds.matrices, np.float64), np.asarray(ds.y))


if __name__ == "__main__":
    main()
