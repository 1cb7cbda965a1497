"""How networks become what a model sees, and whether new ones are of the same kind.

A model remembers its preparation: the connectivity of its series, the regulariser of its matrices, and whether these
were correlations or covariances. Each network is prepared from itself alone, so nothing can leak. May not be here:
models, labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from rmixup.data.connectivity import KINDS, regularized_kind
from rmixup.data.doctor import FINDINGS
from rmixup.data.doctor.finding import Patient
from rmixup.data.doctor.scan import scan_matrices, scan_series
from rmixup.data.labels import shown
from rmixup.data.networks import Networks
from rmixup.data.symmetry import symmetrised
from rmixup.errors import DataError
from rmixup.spd.repair import Regularizer, parse_regularizer

Form = Literal["correlation", "covariance"]

# What no model can be applied to, by the doctor's codes. Other findings concern the cohort or its labels.
REFUSED = (
    "non-finite",
    "constant-node",
    "too-few-frames",
    "asymmetric",
    "looks-like-fisher-z",
    "wrong-diagonal",
    "out-of-range",
)
# People on whom a kind is tried, and how near its matrices must be: files are rounded.
_TRIED, _ALIKE = 3, 1e-5
# Matrices in float64 at once: there may be more than fit into memory.
_AT_ONCE = 256
DEFAULT_KIND = "correlation"
# Of series, not of matrices.
ESTIMATORS = ("ledoit-wolf", "oas")


class Done(NamedTuple):
    """What was done to matrices, as far as their provenance tells."""

    kind: str | None
    frames: int | None
    regularize: str | None


@dataclass(frozen=True)
class Preparation:
    """What was done to the networks a model was trained on.

    Parameters
    ----------
    kind : name in `rmixup.data.connectivity.KINDS`, or None
        None: matrices were given, and nothing tells how they came about.
    frames : int or None
        The series were cut to so many frames.
    regularize : "shrink=0.05", "floor=1e-6", ..., or None
    form : "correlation" or "covariance"
        What the matrices are by their diagonal.
    """

    kind: str | None = None
    frames: int | None = None
    regularize: str | None = None
    form: Form = "correlation"

    @property
    def done(self) -> Done:
        """The same as a history."""
        return Done(self.kind, self.frames, self.regularize)

    def apply(self, ds: Networks) -> tuple[Networks, list[str]]:
        """Prepare new networks alike; return them and, in words, what was done. Those that cannot be are refused.

        >>> import rmixup
        >>> ds = rmixup.simulate(n_subjects=4, n_nodes=5)
        >>> Preparation(regularize="shrink=0.1").apply(ds)[1]
        ['regularised (shrink=0.1), as for training']
        """
        from_series = ds.series is not None and not self._can_take_matrices(ds)
        given = _series_only(ds) if from_series else ds
        problems = _offences(given, self.form)
        if not from_series:
            problems += self._conflicts(history(ds))
        elif self.kind is None:
            problems.append(
                "nothing tells how the matrices came about that the model was trained on, so series cannot be turned "
                "into the same: give matrices, computed as those for training were"
            )
        if problems:
            raise DataError("; ".join(problems))
        return self._from_series(given) if from_series else self._from_matrices(given)

    def _can_take_matrices(self, ds: Networks) -> bool:
        """Whether there are matrices, and nothing better to compute them from or no need to."""
        done = history(ds)
        made_alike = done[:2] == self.done[:2] and done.regularize in {None, self.regularize}
        return ds.has_matrices and (self.kind is None or made_alike)

    def _from_series(self, ds: Networks) -> tuple[Networks, list[str]]:
        assert self.kind is not None
        first = f" of the first {self.frames} frames" if self.frames else ""
        notes = [f"computed {self.kind} from the series{first}, as for training"]
        computed = ds.connectivity(self.kind, frames=self.frames)
        return self._regularized(computed, notes)

    def _from_matrices(self, ds: Networks) -> tuple[Networks, list[str]]:
        ds = symmetrised(ds)
        return (ds, []) if history(ds).regularize else self._regularized(ds, [])

    def _regularized(self, ds: Networks, notes: list[str]) -> tuple[Networks, list[str]]:
        if self.regularize is None:
            return ds, notes
        return ds.regularize(self.regularize), [*notes, f"regularised ({self.regularize}), as for training"]

    def _conflicts(self, done: Done) -> list[str]:
        """Where the history of matrices says that they were made otherwise."""
        wanted = self.done
        problems = [
            f"their {name} is {mine!r}, the model was trained with {theirs!r}: import them again as those for training"
            for name, mine, theirs in zip(("kind", "frames"), done[:2], wanted[:2], strict=True)
            if mine is not None and theirs is not None and mine != theirs
        ]
        if done.regularize is not None and done.regularize != wanted.regularize:
            problems.append(
                f"they were regularised ({done.regularize}), the model was trained on matrices that were "
                f"{'not' if wanted.regularize is None else wanted.regularize}: import them again without --regularize"
            )
        return problems


def prepare(ds: Networks, kind: str | None, regularize: str | None, form: Form) -> tuple[Networks, Preparation]:
    """Make the matrices that a model is trained on, and remember how.

    Parameters
    ----------
    ds : Networks
        With matrices, which are taken as they are, or with series.
    kind : name in `rmixup.data.connectivity.KINDS`, or None
        Compute matrices from the series by this. None: those that are there, else correlations.
    regularize : "ledoit-wolf", "oas", "shrink=0.05", "floor=1e-6" or None
    form : "correlation" or "covariance"
        Of matrices that are there.

    >>> import rmixup
    >>> ds, preparation = prepare(rmixup.simulate(n_subjects=4, n_nodes=5), None, "oas", "correlation")
    >>> preparation.kind, preparation.regularize
    ('oas', None)
    """
    from_series = not ds.has_matrices or kind is not None or regularize in ESTIMATORS
    done = history(ds)
    if not from_series:
        ds = symmetrised(ds)
        known = done if done.kind or done.regularize else done._replace(kind=_recognised(ds))
        if regularize is None:
            return ds, Preparation(*known, form)
        if done.regularize is not None:
            raise DataError(f"the matrices are regularised already ({done.regularize}): leave regularize out")
        return ds.regularize(regularize), Preparation(known.kind, known.frames, _written(regularize), form)
    if ds.series is None:
        asked = f"regularize {regularize!r}" if kind is None else f"kind {kind!r}"
        raise DataError(f"{asked} needs series, but there are only matrices: choose shrink=0.05, or give the series")
    used, on_matrices = regularized_kind(kind or DEFAULT_KIND, regularize)
    written = None if on_matrices is None else _written(on_matrices)
    computed = ds.connectivity(used, on_matrices)
    form = "covariance" if used == "covariance" else "correlation"
    return computed, Preparation(used, done.frames, written, form)


def history(ds: Networks) -> Done:
    """What the provenance tells of the matrices.

    >>> import rmixup
    >>> history(rmixup.simulate(n_subjects=4, n_nodes=5).connectivity("oas").regularize("floor"))
    Done(kind='oas', frames=None, regularize='floor=1e-06')
    """
    kind = frames = regularize = None
    for step in ds.provenance.steps:
        how: Any = step["parameters"]
        if step["step"] == "frames":
            frames = how["first"]
        elif step["step"] == "connectivity":
            kind, regularize = regularized_kind(how["kind"], how.get("regularize"))[0], None
            frames = how.get("frames") or frames
        elif step["step"] == "regularize":
            regularize = str(Regularizer(how["how"], how["amount"]))
    return Done(kind, frames, regularize)


def _recognised(ds: Networks) -> str | None:
    """The kind of connectivity that gives these matrices from these series, tried on the first few people."""
    if ds.series is None:
        return None
    few = ds[: min(len(ds), _TRIED)]
    given = np.asarray(few.matrices, np.float64)
    scale = np.abs(given).max()
    for kind in KINDS:
        made = few.connectivity(kind, constant="zero").matrices
        if made is not None and np.abs(made - given).max() <= _ALIKE * scale:
            return kind
    return None


def _series_only(ds: Networks) -> Networks:
    return Networks(series=ds.series, subjects=ds.subjects, nodes=ds.nodes, provenance=ds.provenance)


def _written(regularize: str) -> str:
    return str(parse_regularizer(regularize))


def _offences(ds: Networks, form: Form) -> list[str]:
    """What is wrong with networks by themselves, whom it concerns, and what to do; one text a finding."""
    series = scan_series(ds)
    patient = Patient(ds, series, scan_matrices(ds, series))
    told = [found for code in REFUSED if (found := FINDINGS[code][1](patient))]
    problems = [f"{one.message} (subjects {shown(one.subjects)}{_at(one.nodes)}): {one.remedy}" for one in told]
    if not told and ds.has_matrices:
        problems += _other_form(patient, form)
    return problems


def _at(nodes: Sequence[str]) -> str:
    return f"; nodes {shown(nodes)}" if nodes else ""


def _other_form(patient: Patient, form: Form) -> list[str]:
    """Covariances for correlations, or the other way round."""
    m = patient.matrices
    # A floor moves the diagonal of a correlation a little away from 1.
    floored = any(step["step"] == "regularize" for step in patient.ds.provenance.steps)
    other = m.unit if form == "covariance" else m.scaled & (not floored)
    if not other.any():
        return []
    names = {"correlation": "correlations (diagonal 1)", "covariance": "covariances (their diagonal is not 1)"}
    is_now = names["correlation" if form == "covariance" else "covariance"]
    return [
        f"{other.sum()} of {len(other)} matrices are {is_now}, but the model was trained on {form}s "
        f"(subjects {shown(patient.ds.subjects[other])}): give {form}s, computed as those for training were"
    ]


def lowest_eigenvalues(matrices: Any) -> npt.NDArray[np.float64]:
    """(N,) the smallest eigenvalue of each matrix (N, n, n), relative to its largest in magnitude.

    >>> lowest_eigenvalues(np.array([np.eye(2), np.ones((2, 2)), np.diag([1.0, -1.0])])).round(9) + 0.0
    array([ 1.,  0., -1.])
    """
    parts = (np.asarray(matrices[at : at + _AT_ONCE], np.float64) for at in range(0, max(1, len(matrices)), _AT_ONCE))
    w = np.concatenate([np.linalg.eigvalsh(part) for part in parts])
    largest = np.abs(w).max(axis=1)
    return np.asarray(w[:, 0] / np.where(largest > 0, largest, 1.0))
