"""A simulated cohort whose truth is known: realistic spectra, autocorrelated series, sites, an effect put where asked.

How a person comes about. The population has one correlation matrix, made of a global signal, systems (modules) and
components whose variances fall as a power law. A person's own covariance differs from it in log-Euclidean
coordinates: by systems, by single edges, by site, and by the effect of the label. With `effect_direction="euclid"`
the label acts on the person's correlation matrix instead, along a straight line. Series with that covariance and the
asked autocorrelation are then drawn, and `matrices` are their Pearson correlations, so that sampling noise and, with
too few frames, singular matrices are there as in life.

`truth` gives back what was put in, from the provenance alone. Needs NumPy only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rmixup import keys
from rmixup.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from rmixup.data.networks import Networks

Array = NDArray[Any]

SYSTEMS = ("Visual", "Somatomotor", "DorsalAttention", "Salience", "Limbic", "Control", "Default")
TASKS = ("classification", "regression")
EFFECT_DIRECTIONS = ("logeuclid", "euclid")
TARGETS = {"classification": "class", "regression": "score"}

# How much of a node's variance is shared by all, by its system, through components of falling variance; the rest is
# its own. Chosen with the two spreads so that 60 nodes look like 60 regions of ABIDE (tests/data/test_simulate.py).
GLOBAL_SHARE, SYSTEM_SHARE, COMPONENT_SHARE = 0.24, 0.08, 0.58
SPECTRAL_SLOPE = 1.15
SYSTEM_SPREAD = 0.35  # standard deviation between people of the log-variance of a system, and between two systems
EDGE_SPREAD = 0.06  # the same of a single entry of the log-matrix
BLOCK_SHARE = 0.5  # how much of an effect acts on whole pairs of systems; the rest on single edges
SCORE_LIMIT = 3.0  # regression labels are standard normal, cut here

_PEOPLE_AT_ONCE = 64  # bounds the memory beyond the result; part of the key, so changing it changes the data


class Truth(NamedTuple):
    """What was put into a simulated cohort.

    Attributes
    ----------
    effect_direction : str
        "logeuclid": a person's covariance is `exp(log(population) + d + what is the person's own)`; "euclid": their
        correlation is `(1 - share) C + share population + d`, with C that of the same person without an effect.
        `d` is `effects[y]` for classes and `y * effects[0]` for a score.
    population : (n, n) float64
        The correlation matrix everybody's varies around.
    effects : (n_classes, n, n) or, for a score, (1, n, n) float64
        Zero diagonal. Classes lie on average `effect` apart in Frobenius norm; a score moves `effect` a unit.
    site_shifts : (n_sites, n, n) float64
        What each site adds to the logs, of Frobenius norm `site_effect`, about a mean of zero.
    share : float
        How far "euclid" draws people towards the population so that every matrix stays positive definite; else 0.
    """

    effect_direction: str
    population: Array
    effects: Array
    site_shifts: Array
    share: float


class _Design(NamedTuple):
    """The parameters of a cohort, as they stand in its provenance."""

    n_subjects: int
    n_nodes: int
    n_frames: tuple[int, int]
    task: str
    seed: int
    n_classes: int
    effect: float
    effect_direction: str
    n_sites: int
    site_effect: float
    autocorrelation: float
    systems: tuple[str, ...]


def simulate(
    n_subjects: int = 200,
    n_nodes: int = 60,
    n_frames: int | tuple[int, int] = 120,
    task: str = "classification",
    seed: int = 0,
    *,
    n_classes: int = 2,
    effect: float = 1.0,
    effect_direction: str = "logeuclid",
    n_sites: int = 4,
    site_effect: float = 0.7,
    autocorrelation: float = 0.35,
    systems: Sequence[str] = SYSTEMS,
) -> Networks:
    """Draw a cohort of networks with labels, sites and a known truth.

    Parameters
    ----------
    n_subjects, n_nodes : int
        People, and nodes of each network.
    n_frames : int or (int, int)
        Length of everybody's series, or the bounds (both included) between which each person's is drawn.
    task : "classification" or "regression"
        Balanced classes, or a standard normal score.
    seed : int
        The only source of chance: the same arguments give the same data.
    n_classes : int
        Number of classes; of no meaning for regression.
    effect : float
        Distance between the classes (on average), or per unit of the score, in Frobenius norm along the direction.
        With the other defaults a logistic regression on the edges reaches an AUROC of about 0.8 at 1.0;
        0 puts no label in.
    effect_direction : "logeuclid" or "euclid"
        Whether the label acts on the matrix logarithm or on the correlation itself.
    n_sites : int
        Sites, as `groups`; 1 for none.
    site_effect : float
        Size of each site's shift, in Frobenius norm of the logs.
    autocorrelation : float
        Correlation of a frame with the one before, 0 <= autocorrelation < 1.
    systems : sequence of str
        Names of the modules, of which at most `n_nodes` are used; nodes are named after them.

    Returns
    -------
    Networks with `series`, their Pearson correlations as `matrices`, `y`, `groups`, `nodes` and a `table` with the
    label, site, age, sex and mean motion, the last three unrelated to the label.

    Examples
    --------
    >>> ds = simulate(n_subjects=20, n_nodes=10, n_frames=50)
    >>> len(ds), ds.matrices.shape, ds.classes
    (20, (20, 10, 10), ('class-1', 'class-2'))
    """
    design = _Design(
        int(n_subjects), int(n_nodes), _bounds(n_frames), task, int(seed), int(n_classes), float(effect),
        effect_direction, int(n_sites), float(site_effect), float(autocorrelation), tuple(systems)[: int(n_nodes)],
    )  # fmt: skip
    _refuse(design)
    return _networks(design)


def truth(ds: Networks) -> Truth:
    """Return what was put into a simulated cohort, or into any part of one; nodes are those of the whole cohort.

    >>> ds = simulate(n_subjects=20, n_nodes=10, n_frames=50, effect=2.0)
    >>> known = truth(ds)
    >>> round(float(np.linalg.norm(known.effects[1] - known.effects[0])), 6)
    2.0
    """
    for step in ds.provenance.steps:
        if step["step"] == "simulate":
            return _truth(_from_parameters(step["parameters"]))
    raise DataError("truth is known of simulated data only, but no step of this data set's provenance is 'simulate'")


def _from_parameters(parameters: dict[str, Any]) -> _Design:
    """A design as JSON gives it back: lists for tuples."""
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in parameters.items()}
    return _Design(**values)


def _bounds(n_frames: int | tuple[int, int]) -> tuple[int, int]:
    low, high = (n_frames, n_frames) if isinstance(n_frames, int) else n_frames
    return int(low), int(high)


def _refuse(d: _Design) -> None:
    """Name everything that is wrong with the arguments in one error."""
    n_labels = d.n_classes if d.task == "classification" else 1
    demands = {
        f"task in {TASKS}, not {d.task!r}": d.task in TASKS,
        f"effect_direction in {EFFECT_DIRECTIONS}, not {d.effect_direction!r}": d.effect_direction in EFFECT_DIRECTIONS,
        f"n_nodes >= 3, not {d.n_nodes}": d.n_nodes >= 3,
        f"3 <= n_frames, low <= high, not {d.n_frames}": 3 <= d.n_frames[0] <= d.n_frames[1],
        f"n_classes >= 2, not {d.n_classes}": d.n_classes >= 2,
        f"n_subjects >= {n_labels} (one a class), not {d.n_subjects}": d.n_subjects >= n_labels,
        f"1 <= n_sites <= n_subjects, not {d.n_sites}": 1 <= d.n_sites <= d.n_subjects,
        f"effect >= 0, not {d.effect}": 0 <= d.effect < np.inf,
        f"site_effect >= 0, not {d.site_effect}": 0 <= d.site_effect < np.inf,
        f"0 <= autocorrelation < 1, not {d.autocorrelation}": 0 <= d.autocorrelation < 1,
        f"one system or more, not {len(d.systems)}": len(d.systems) >= 1,
    }
    if unmet := [demand for demand, met in demands.items() if not met]:
        raise DataError(f"simulate expects {'; '.join(unmet)}")


# --- the truth


def _truth(d: _Design) -> Truth:
    system = _system_of_node(d)
    population = _population(d, system)
    n_effects = d.n_classes if d.task == "classification" else 1
    effects = d.effect * _unit_apart(_directions(d, system, n_effects, "effect"))
    sites = d.site_effect * _unit_long(_centred(_directions(d, system, d.n_sites, "site")))
    share = _share_needed(d, population, effects) if d.effect_direction == "euclid" else 0.0
    return Truth(d.effect_direction, population, effects, sites, share)


def _system_of_node(d: _Design) -> NDArray[np.intp]:
    """The system of each node: neighbours together, sizes as equal as can be."""
    return np.arange(d.n_nodes) * len(d.systems) // d.n_nodes


def _population(d: _Design, system: NDArray[np.intp]) -> Array:
    rng = keys.generator(d.seed, "simulate", "population")
    same_system = (system[:, None] == system[None]).astype(float)
    basis = np.linalg.qr(rng.normal(size=(d.n_nodes, d.n_nodes)))[0]
    components = _unit_diagonal((basis * np.arange(1.0, d.n_nodes + 1) ** -SPECTRAL_SLOPE) @ basis.T)
    loadings = rng.uniform(0.6, 1.4, size=d.n_nodes)
    own = 1 - GLOBAL_SHARE - SYSTEM_SHARE - COMPONENT_SHARE
    shared = GLOBAL_SHARE * np.outer(loadings, loadings) + SYSTEM_SHARE * same_system + COMPONENT_SHARE * components
    return _unit_diagonal(shared + own * np.eye(d.n_nodes))


def _directions(d: _Design, system: NDArray[np.intp], count: int, label: str) -> Array:
    """Symmetric (count, n, n) with zero diagonal: a part constant over pairs of systems, a part edge by edge."""
    rng = keys.generator(d.seed, "simulate", label)
    n_systems = len(d.systems)
    blocks = _symmetric(rng.normal(size=(count, n_systems, n_systems)))[:, system][:, :, system]
    edges = _symmetric(rng.normal(size=(count, d.n_nodes, d.n_nodes)))
    drawn: Array = BLOCK_SHARE**0.5 * blocks + (1 - BLOCK_SHARE) ** 0.5 * edges
    np.einsum("kii->ki", drawn)[...] = 0
    return drawn


def _unit_long(x: Array) -> Array:
    """Each matrix of Frobenius norm 1; a zero stays zero."""
    norms = np.linalg.norm(x, axis=(1, 2), keepdims=True)
    scaled: Array = x / np.where(norms > 0, norms, 1.0)
    return scaled


def _centred(x: Array) -> Array:
    centred: Array = x - x.mean(axis=0)
    return centred


def _unit_apart(x: Array) -> Array:
    """Centre the matrices and scale them to a mean distance of 1; a single one to norm 1."""
    if len(x) == 1:
        return _unit_long(x)
    x = _centred(x)
    first, second = np.triu_indices(len(x), 1)
    mean_distance: float = np.mean([np.linalg.norm(x[i] - x[j]) for i, j in zip(first, second, strict=True)])
    return x / mean_distance


def _share_needed(d: _Design, population: Array, effects: Array) -> float:
    """How far people are drawn to the population so that (1-s)C + s·population + effect is positive definite.

    s·population + effect is, when s is at least the largest eigenvalue of -population^-½ effect population^-½; C
    adds a positive definite part to it.
    """
    reach = SCORE_LIMIT if d.task == "regression" else 1.0
    values, vectors = np.linalg.eigh(population)
    whiten = (vectors * values**-0.5) @ vectors.T
    spectra = np.linalg.eigvalsh(whiten @ effects @ whiten)
    lowest = np.abs(spectra).max() if d.task == "regression" else -spectra.min()
    share = float(reach * lowest)
    if share >= 1:
        raise DataError(
            f"simulate expects an effect of less than {d.effect / share:.3g} along 'euclid' with these arguments, "
            f"but got {d.effect:.3g}, for which no positive definite matrices exist; take a smaller effect, or "
            "effect_direction='logeuclid'"
        )
    return share


# --- the people


def _networks(d: _Design) -> Networks:
    from rmixup.data.networks import Networks
    from rmixup.data.provenance import Provenance

    known = _truth(d)
    y, site = _labels(d), _sites(d)
    frames = _frames(d)
    series = [person for chunk in _chunks(d, known, y, site, frames) for person in chunk]
    matrices = np.stack([np.corrcoef(person, rowvar=False) for person in series])
    for array in (matrices, *series):
        array.setflags(write=False)  # spares Networks a copy
    table = _table(d, y, site)
    return Networks(
        matrices=matrices, y=y, subjects=table.index.to_numpy(dtype=str), nodes=_node_names(d), series=series,
        groups=table["site"].to_numpy(dtype=str) if d.n_sites > 1 else None,
        target=TARGETS[d.task], classes=_class_names(d) if d.task == "classification" else None,
        table=table, provenance=Provenance().then("simulate", **d._asdict()),
    )  # fmt: skip


def _labels(d: _Design) -> NDArray[Any]:
    rng = keys.generator(d.seed, "simulate", "labels")
    if d.task == "classification":
        return rng.permutation(np.arange(d.n_subjects) % d.n_classes)
    return np.clip(rng.normal(size=d.n_subjects), -SCORE_LIMIT, SCORE_LIMIT)


def _sites(d: _Design) -> NDArray[np.intp]:
    return keys.generator(d.seed, "simulate", "sites").permutation(np.arange(d.n_subjects) % d.n_sites)


def _frames(d: _Design) -> NDArray[np.intp]:
    low, high = d.n_frames
    return keys.generator(d.seed, "simulate", "frames").integers(low, high + 1, size=d.n_subjects)


def _chunks(
    d: _Design, known: Truth, y: NDArray[Any], site: NDArray[np.intp], frames: NDArray[np.intp]
) -> Iterator[list[Array]]:
    """The series of a few people at a time, each chunk from its own key."""
    log_population = _log(known.population)
    for start in range(0, d.n_subjects, _PEOPLE_AT_ONCE):
        part = slice(start, start + _PEOPLE_AT_ONCE)
        rng = keys.generator(d.seed, "simulate", "people", start)
        label_part = known.effects[y[part]] if d.task == "classification" else y[part, None, None] * known.effects
        roots = _root_covariances(d, known, log_population + known.site_shifts[site[part]], label_part, rng)
        yield _series(roots, frames[part], d.autocorrelation, rng)


def _root_covariances(d: _Design, known: Truth, logs: Array, label_part: Array, rng: np.random.Generator) -> Array:
    """(people, n, n) square roots of the covariances, such that root @ root.T is a person's covariance."""
    logs = logs + _personal(d, len(label_part), rng)
    if d.effect_direction == "logeuclid":
        values, vectors = np.linalg.eigh(logs + label_part)
        return vectors * np.exp(values / 2)[:, None]
    values, vectors = np.linalg.eigh(logs)
    without = _unit_diagonal((vectors * np.exp(values)[:, None]) @ vectors.swapaxes(1, 2))
    return np.linalg.cholesky((1 - known.share) * without + known.share * known.population + label_part)


def _personal(d: _Design, people: int, rng: np.random.Generator) -> Array:
    """How people differ for no reason that is modelled: systems and single entries of the log-matrix."""
    n_systems, system = len(d.systems), _system_of_node(d)
    by_system = SYSTEM_SPREAD * _symmetric(rng.normal(size=(people, n_systems, n_systems)))
    scale = np.bincount(system, minlength=n_systems)[system] ** -0.5  # so that its eigenvalues do not grow with n
    by_edge = EDGE_SPREAD * _symmetric(rng.normal(size=(people, d.n_nodes, d.n_nodes)))
    return by_edge + by_system[:, system][:, :, system] * np.outer(scale, scale)


def _series(roots: Array, frames: NDArray[np.intp], autocorrelation: float, rng: np.random.Generator) -> list[Array]:
    """Each person's (t, n) series: a stationary autoregressive process with the covariance root @ root.T."""
    people, n = roots.shape[:2]
    noise = rng.normal(size=(int(frames.max()), people, n))
    noise[1:] *= (1 - autocorrelation**2) ** 0.5
    for t in range(1, len(noise)):
        noise[t] += autocorrelation * noise[t - 1]
    mixed = noise.swapaxes(0, 1) @ roots.swapaxes(1, 2)
    return [np.ascontiguousarray(person[:length]) for person, length in zip(mixed, frames, strict=True)]


# --- names and table


def _node_names(d: _Design) -> NDArray[np.str_]:
    system = _system_of_node(d)
    first = np.searchsorted(system, system)  # systems are contiguous
    return np.array([f"{d.systems[s]}-{k + 1:02d}" for s, k in zip(system, np.arange(d.n_nodes) - first, strict=True)])


def _class_names(d: _Design) -> tuple[str, ...]:
    return tuple(f"class-{k + 1}" for k in range(d.n_classes))


def _table(d: _Design, y: NDArray[Any], site: NDArray[np.intp]) -> pd.DataFrame:
    import pandas as pd

    rng = keys.generator(d.seed, "simulate", "table")
    label = np.array(_class_names(d))[y] if d.task == "classification" else y
    width = len(str(d.n_subjects))
    columns = {
        TARGETS[d.task]: label,
        "site": [f"site-{k + 1}" for k in site],
        "age": rng.uniform(8, 40, size=d.n_subjects).round(1),
        "sex": rng.choice(["F", "M"], size=d.n_subjects),
        "mean_fd": rng.lognormal(-2.2, 0.6, size=d.n_subjects).round(4),
    }
    index = pd.Index([f"sub-{k + 1:0{width}d}" for k in range(d.n_subjects)], name="subject")
    return pd.DataFrame(columns, index=index)


# --- small algebra


def _symmetric(x: Array) -> Array:
    """Symmetric, with off-diagonal entries of the same spread as those of x."""
    sums: Array = (x + x.swapaxes(-1, -2)) / 2**0.5
    return sums


def _unit_diagonal(x: Array) -> Array:
    scale = np.diagonal(x, axis1=-2, axis2=-1) ** -0.5
    scaled: Array = x * scale[..., :, None] * scale[..., None, :]
    return scaled


def _log(x: Array) -> Array:
    values, vectors = np.linalg.eigh(x)
    logs: Array = (vectors * np.log(values)) @ vectors.T
    return logs
