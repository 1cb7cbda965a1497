"""The roofline: what is counted, and what the share means."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from rmixup.bench import COLUMNS, roofline, show
from rmixup.bench.engine import PlainModel
from rmixup.models import build
from rmixup.spd import product

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def rows():
    return roofline.rows(quick=True)


def test_the_share_is_the_floor_over_the_time(rows) -> None:
    rate = max(row["gflops"] for row in rows[:2])
    for row in rows[3:]:
        assert row["floor"] >= row["operations"] / rate / 1e9
        assert row["ratio"] == pytest.approx(row["floor"] / row["seconds"])
        assert row["ratio"] < 1.2
    assert all(key in {*COLUMNS, "operations", "bytes"} for row in rows for key in row)
    assert "roof: copy" in show({"machine": "this one", "rows": rows})


def test_the_operations_of_a_training_step_are_those_that_torch_counts() -> None:
    model = build("transformer", 40, 2)
    counter = FlopCounterMode(display=False)
    with counter:
        model.double()(torch.eye(40).double().expand(4, 40, 40))
    assert 3 * counter.get_total_flops() == pytest.approx(roofline.training_operations(40, 4), rel=1e-9)


def test_the_operations_of_a_mix_are_those_that_torch_counts() -> None:
    for n in (40, 192):  # a multiple of three times sixteen: blocks of one size
        counter = FlopCounterMode(display=False)
        with counter:
            product.expm(torch.zeros(2, n, n), bounds=(-8.0, 1.0))
        scheme, squarings = product.choose(9.0)
        counted = roofline.mixing_operations(n, 2, scheme.products + squarings, CPU)
        assert counter.get_total_flops() == pytest.approx(counted, rel=1e-6)


def test_the_plain_model_is_as_much_work() -> None:
    ours = sum(value.numel() for value in build("transformer", 40, 2).parameters())
    assert ours == sum(value.numel() for value in PlainModel(40).parameters())
