"""A small cohort in which three known edges differ between the classes, models of it, and an explanation."""

import sys
from pathlib import Path

import pytest

from rmixup.explain import explain

sys.path.insert(0, str(Path(__file__).parent))

from planted_cohorts import MLP, PLANTED, fitted, with_edges


@pytest.fixture(scope="session")
def cohort():
    return with_edges(PLANTED)


@pytest.fixture(scope="session")
def planted(cohort):
    return {frozenset((cohort.nodes[i], cohort.nodes[j])): size for (i, j), size in PLANTED.items()}


@pytest.fixture(scope="session")
def linear(cohort):
    return fitted(cohort)


@pytest.fixture(scope="session")
def told(linear, cohort):
    return explain(linear, cohort, permutations=19)


@pytest.fixture(scope="session")
def mlp(cohort):
    return fitted(cohort, *MLP)
