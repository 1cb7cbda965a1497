"""Swelling: measured along geodesics on generated, simulated and real networks, and drawn."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from rmixup.data.readers.simulate import simulate
from rmixup.report import swelling as drawn
from rmixup.spd.metrics import METRICS
from rmixup.spd.swelling import Profile, compare, profile, swells

T = np.linspace(0, 1, 11)


def pairs(count: int = 20, n: int = 30) -> tuple[torch.Tensor, torch.Tensor]:
    S = torch.from_numpy(np.array(simulate(2 * count, n_nodes=n, n_frames=4 * n, n_sites=1).matrices))
    return S[:count], S[count:]


def test_profile_is_the_size_of_the_matrices() -> None:
    A, B = pairs(3, 8)
    along = profile(A, B, METRICS["euclid"].geodesic, T)
    middle = ((A + B) / 2).numpy()
    np.testing.assert_allclose(along.log_det[5], np.linalg.slogdet(middle)[1], rtol=1e-10)
    np.testing.assert_allclose(along.trace[5], np.trace(middle, axis1=1, axis2=2), rtol=1e-12)
    np.testing.assert_allclose(along.condition[5], np.linalg.cond(middle), rtol=1e-8)
    assert along.log_det.shape == (11, 3)


def test_swelling_is_beyond_both_ends_and_beyond_rounding() -> None:
    log_det = np.array([[0.0, 0.0, 0.0, 0.0], [0.5, 1.5, 1e-12, -1.0], [1.0, 1.0, 0.0, 0.0]])
    some = Profile(np.array([0, 0.5, 1]), log_det, log_det, log_det)
    assert swells(some).tolist() == [False, True, False, False]


@pytest.mark.parametrize("name", sorted(METRICS))
def test_geometries_swell_as_they_say(name: str) -> None:
    A, B = pairs()
    # Equal determinants: whatever rises at all rises above both ends.
    B = B * ((A.logdet() - B.logdet()) / A.shape[-1]).exp()[:, None, None]
    share = float(swells(profile(A, B, METRICS[name].geodesic, T)).mean())
    assert share == 1.0 if METRICS[name].swells else share == 0.0


def test_singular_matrices_have_no_determinant_and_no_warning() -> None:
    along = profile(torch.zeros(2, 2), torch.zeros(2, 2), METRICS["euclid"].geodesic, T)
    assert np.all(np.isneginf(along.log_det))


def real_networks(folder: Path, count: int) -> Iterator[np.ndarray]:
    for file in sorted((folder / "abide" / "rois_ho").glob("*.1D")):
        series = np.loadtxt(file)
        if len(series) > series.shape[1] + 20 and (series.std(0) > 0).all():
            yield np.corrcoef(series.T)


@pytest.mark.real
def test_straight_lines_between_real_networks_swell(real_data: Path) -> None:
    S = torch.from_numpy(np.stack(list(islice(real_networks(real_data, 40), 40))))
    shares = {
        name: float(swells(profile(S[:20], S[20:], metric.geodesic, T)).mean()) for name, metric in METRICS.items()
    }
    assert shares["euclid"] >= 0.9
    assert shares["logeuclid"] == shares["riemann"] == shares["logchol"] == 0


def test_figure_shows_every_curve_and_network() -> None:
    A, B = (S[0] for S in pairs(1, 10))
    measured = compare(A, B, points=5)
    assert set(measured.profiles) == set(measured.midpoints) == set(METRICS)
    assert 0.5 in compare(A, B).profiles["euclid"].t  # a curve has its own middle
    figure = drawn.draw(
        measured.profiles["euclid"].t,
        {name: along.log_det for name, along in measured.profiles.items()},
        {"one": A.numpy(), "middle": measured.midpoints["logeuclid"]},
    )
    lines, one, middle, _ = figure.axes
    assert len(lines.lines) == len(drawn.CURVES) + 1
    np.testing.assert_allclose(lines.lines[0].get_ydata(), measured.profiles["euclid"].log_det)
    np.testing.assert_array_equal(one.images[0].get_array(), A.numpy())
    assert middle.get_title() == "middle"
    assert "mean diagonal 1.00" in one.get_xlabel()
