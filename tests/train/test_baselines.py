"""The baselines are scikit-learn's models on edges and on pyRiemann's tangent vectors, fitted on training data only."""

import numpy as np
import pytest
import torch
from pyriemann.tangentspace import TangentSpace
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from rmixup.errors import DataError
from rmixup.train.baselines import BASELINES, GRID, Linear, Tangent
from rmixup.train.scores import probabilities


def networks(count: int, n: int, seed: int = 0) -> Tensor:
    series = np.random.default_rng(seed).standard_normal((count, n, 4 * n))
    return torch.from_numpy(np.stack([np.corrcoef(one) for one in series]))


def upper(x: Tensor) -> np.ndarray:
    row, column = np.triu_indices(x.shape[-1], 1)
    return x.numpy()[:, row, column]


# Fewer and more edges than networks.
@pytest.mark.parametrize("n", [5, 15])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("C", [0.01, 1.0])
def test_linear_is_scikit_learns_logistic_regression(n: int, classes: int, C: float) -> None:
    x, y = networks(60, n), np.arange(60) % classes
    weights = np.random.default_rng(1).uniform(0.5, 2, 60)
    z = StandardScaler().fit(upper(x[:40]))
    peer = LogisticRegression(C=C, tol=1e-10, max_iter=10000)
    peer.fit(z.transform(upper(x[:40])), y[:40], sample_weight=weights[:40])
    ours = Linear(C).fit(x[:40], torch.from_numpy(y[:40]), torch.from_numpy(weights[:40]))
    expected = peer.predict_proba(z.transform(upper(x[40:])))
    np.testing.assert_allclose(probabilities(ours.predict(x[40:])), expected, atol=1e-6)


@pytest.mark.parametrize("n", [5, 15])
@pytest.mark.parametrize("targets", [1, 2])
def test_linear_is_scikit_learns_ridge(n: int, targets: int) -> None:
    x = networks(60, n)
    y = np.random.default_rng(2).standard_normal((60, targets)) * 10 + 100
    weights = np.random.default_rng(1).uniform(0.5, 2, 60)
    z = StandardScaler().fit(upper(x[:40]))
    peer = Ridge(alpha=4.0, solver="cholesky").fit(z.transform(upper(x[:40])), y[:40], sample_weight=weights[:40])
    ours = Linear(0.25).fit(x[:40], torch.from_numpy(y[:40]), torch.from_numpy(weights[:40]))
    np.testing.assert_allclose(
        ours.predict(x[40:]), peer.predict(z.transform(upper(x[40:]))).reshape(20, -1), rtol=1e-8
    )


@pytest.mark.parametrize("metric", ["riemann", "euclid", "logeuclid"])
def test_tangent_is_pyriemanns_tangent_space_at_the_training_mean(metric: str) -> None:
    x, y = networks(40, 6), np.random.default_rng(3).standard_normal(40)
    peer = make_pipeline(TangentSpace(metric={"mean": metric, "map": "riemann"}), StandardScaler(), Ridge(alpha=1.0))
    peer.fit(x[:30].numpy(), y[:30])
    ours = Tangent(metric=metric).fit(x[:30], torch.from_numpy(y[:30]))
    np.testing.assert_allclose(ours.predict(x[30:])[:, 0], peer.predict(x[30:].numpy()), rtol=1e-5)


@pytest.mark.parametrize("name", BASELINES)
def test_what_was_learned_does_not_depend_on_what_is_predicted(name: str) -> None:
    x, y = networks(40, 6), torch.arange(40) % 2
    model = BASELINES[name]().fit(x[:30], y[:30])
    together = model.predict(x[30:])
    torch.testing.assert_close(torch.cat([model.predict(one[None]) for one in x[30:]]), together)


def test_the_penalty_is_chosen_on_the_validation_data() -> None:
    x, y = networks(90, 12), torch.arange(90) % 2
    x[y == 1, 0, 1] += 0.1
    x[:, 1, 0] = x[:, 0, 1]
    held_out = (x[50:], y[50:])
    chosen = Linear().fit(x[:50], y[:50], validation=held_out)

    def loss(C: float) -> float:
        p = softmax(Linear(C).fit(x[:50], y[:50]).predict(x[50:]).numpy(), axis=1)
        return float(-np.log(p[np.arange(40), y[50:].numpy()]).mean())

    losses = {C: loss(C) for C in GRID}
    assert chosen.chosen_C == min(losses, key=lambda C: losses[C])
    assert chosen.chosen_C not in {GRID[0], GRID[-1]}
    torch.testing.assert_close(chosen.predict(x), Linear(chosen.chosen_C).fit(x[:50], y[:50]).predict(x))


def test_a_given_penalty_stays_and_without_validation_it_is_one() -> None:
    x, y = networks(20, 5), torch.arange(20) % 2
    assert Linear(0.3).fit(x, y, validation=(x, y)).chosen_C == 0.3
    assert Linear().fit(x, y).chosen_C == 1.0


def test_a_constant_edge_changes_nothing() -> None:
    x, y = networks(30, 5), torch.arange(30) % 2
    x[:, 0, 1] = x[:, 1, 0] = 0.1
    assert Linear().fit(x, y).predict(x).isfinite().all()


def test_a_class_that_training_lacks_still_has_its_output() -> None:
    x, y = networks(30, 5), torch.arange(30) % 2
    logits = Linear().fit(x, y, n_outputs=3).predict(x)
    assert logits.shape == (30, 3)
    assert (probabilities(logits)[:, 2] < 1 / 3).all()


def test_what_cannot_be_fitted_is_refused() -> None:
    x = networks(10, 5)
    with pytest.raises(DataError, match="at least two classes"):
        Linear().fit(x, torch.zeros(10, dtype=torch.int64))
    with pytest.raises(DataError, match=r"C > 0, got -1"):
        Linear(-1)
    with pytest.raises(DataError, match="metric to be one of"):
        Tangent(metric="cosine")
