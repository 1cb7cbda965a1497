"""`rmixup demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("demo"),
) -> None:
    """A first look at what a geodesic does to a network.

    Example: rmixup demo --out demo
    """
    import numpy as np
    import torch

    from rmixup.data.readers.simulate import simulate
    from rmixup.report.swelling import draw, write
    from rmixup.spd.swelling import compare

    a, b = np.array(simulate(n_subjects=2, n_nodes=60, n_frames=120, n_sites=1).matrices)
    measured = compare(torch.from_numpy(a), torch.from_numpy(b))
    networks = {
        "network A": a,
        "halfway, straight line": measured.midpoints["euclid"],
        "halfway, log-Euclidean": measured.midpoints["logeuclid"],
    }
    along = {name: path.log_det for name, path in measured.profiles.items()}
    svg, png = write(draw(measured.profiles["euclid"].t, along, networks), out)
    typer.echo(f"Two simulated networks of {len(a)} nodes, mixed in six ways: open {png} (or {svg}).")
    typer.echo("Next: `rmixup bench spd` times the mixing on this machine.")
