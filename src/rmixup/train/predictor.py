"""A model together with what its data were like: it checks new networks, brings them into its form, and predicts.

Nothing is computed before everything was checked; all that is wrong is told at once. May not be here: files.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from rmixup.data.door import names_or_numbers
from rmixup.data.labels import shown
from rmixup.data.networks import Networks
from rmixup.data.tsv import field as tsv_field
from rmixup.errors import DataError, NotSPDError
from rmixup.files import write
from rmixup.spd.spectral import EPS, RESIDUAL_OVER_N_EPS, SINGULAR_OVER_N_EPS
from rmixup.train.model import Model, is_baseline
from rmixup.train.preparation import Preparation, lowest_eigenvalues
from rmixup.train.scores import score

Floats = npt.NDArray[np.float64]
Scores = dict[str, float | None]

# What takes logarithms of every network, and above how many roundings (n eps of the largest) every eigenvalue must
# be: tangent refuses singular networks; spdnet raises eigenvalues to a floor first, so refuses only negative ones.
NEEDS_SPD = {"tangent": SINGULAR_OVER_N_EPS, "spdnet": -RESIDUAL_OVER_N_EPS}
NEW_MODEL = "give longer series, or train a model with --regularize, which then regularises whatever it is given"
# What readers call the labels of a stack file, which has no name for them.
UNNAMED = "y"
_NEAREST_SHOWN = 5
# A spreadsheet takes a text that begins so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, eq=False)
class Predictions:
    """What was predicted for N networks.

    Attributes
    ----------
    subjects : (N,) text
    values : (N, C) class probabilities, or (N, k) numbers
    classes : names of the classes in the order of the columns, or None
    target : what was predicted: one name, or one a column, or None where the data did not say
    notes : what was done to the data, in words
    """

    subjects: npt.NDArray[np.str_]
    values: Floats
    classes: tuple[str, ...] | None
    target: str | tuple[str, ...] | None
    notes: list[str]

    @property
    def labels(self) -> list[Any]:
        """For each network the name of its most probable class, or its number (or row of numbers)."""
        if self.classes is not None:
            return [self.classes[code] for code in self.values.argmax(axis=1)]
        return list((self.values[:, 0] if self.values.shape[1] == 1 else self.values).tolist())

    def columns(self) -> dict[str, list[Any]]:
        """One row a network: subject, prediction (one a target), and `p_CLASS` for each class.

        >>> Predictions(np.array(["s1"]), np.array([[0.25, 0.75]]), ("a", "b"), "diagnosis", []).columns()
        {'subject': ['s1'], 'prediction': ['b'], 'p_a': [0.25], 'p_b': [0.75]}
        """
        table: dict[str, list[Any]] = {"subject": self.subjects.tolist()}
        if self.classes is not None:
            each = {f"p_{name}": column for name, column in zip(self.classes, self.values.T.tolist(), strict=True)}
            return {**table, "prediction": self.labels, **each}
        if self.values.shape[1] == 1:
            return {**table, "prediction": self.labels}
        names = self.target if isinstance(self.target, tuple) else tuple(map(str, range(self.values.shape[1])))
        return {**table, **{f"prediction_{k}": v for k, v in zip(names, self.values.T.tolist(), strict=True)}}


@dataclass(frozen=True, eq=False)
class Predictor:
    """What predicts for new people.

    Parameters
    ----------
    model : Model
    nodes : (n,) names, or None where the training data had none
    classes : names of the classes in the order of the outputs, or None for numbers
    target : what is predicted: a name, or one a column, or None where the data did not say
    preparation : Preparation
    record : dict
        How it came about, of plain values: data, training, epochs, scores.
    """

    model: Model
    nodes: tuple[str, ...] | None
    classes: tuple[str, ...] | None
    target: str | tuple[str, ...] | None
    preparation: Preparation
    record: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        name = self.model.backbone if isinstance(self.model.backbone, str) else self.model.backbone.__name__
        what = f" of {self.target}" if self.target else ""
        return f"Predictor({name}, {self.model.task}{what}, networks of {self.model.n_nodes} nodes)"

    def predict(self, ds: Networks, device: torch.device | str | None = None) -> Predictions:
        """Check and prepare new networks, then predict.

        Parameters
        ----------
        ds : Networks
            Of the same nodes: by name where both have names, in any order. With matrices like those of the training,
            or with series where the model knows what to compute from them.
        device : device or None
            None: a GPU where there is one. Baselines predict on the CPU.
        """
        accepted, notes = self.accept(ds)
        dtype = np.float64 if is_baseline(self.model.backbone) else np.float32
        x = torch.from_numpy(np.array(accepted.matrices, dtype))
        values = self.model.predict(x, device)
        return Predictions(ds.subjects, values, self.classes, self.target, notes)

    def accept(self, ds: Networks) -> tuple[Networks, list[str]]:
        """New networks as the model takes them and, in words, what was done; those it cannot take are refused."""
        if not len(ds):
            raise DataError("expected one network or more to predict for, got none")
        ordered, notes = self._in_order(ds)
        prepared, more = self.preparation.apply(ordered)
        require_definite(prepared, self.model.backbone, NEW_MODEL)
        return prepared, notes + more

    def _in_order(self, ds: Networks) -> tuple[Networks, list[str]]:
        """The networks with the model's nodes in the model's order."""
        names, count = given_names(ds), self.model.n_nodes
        if self.nodes is not None and names is not None and set(names) != set(self.nodes):
            raise DataError(_differing(names, self.nodes))
        if ds.n_nodes != count:
            raise DataError(
                f"the networks have {ds.n_nodes} nodes, the model was trained on {count}: give networks of the same "
                "nodes, or train a model on these"
            )
        if self.nodes is None or names is None:
            whose = "the new networks" if names is None else "the model's"
            only = self.nodes is not None or names is not None
            return ds, [f"nodes are taken in the order they come: {whose} have no names"] if only else []
        if names == self.nodes:
            return ds, []
        return ds.select(nodes=list(self.nodes)), ["nodes were in another order: put into the model's, by name"]

    def score(self, ds: Networks, predictions: Predictions) -> tuple[Scores, int, str]:
        """Scores where the true labels are known: by name, for how many people, and why not where there are none.

        The labels are the column of the target in the table of `ds`, or its own labels where they are of the target.
        """
        known, truth, why = self._truth(ds)
        if truth is None:
            return {}, 0, why
        found = score(torch.from_numpy(predictions.values[known]), torch.from_numpy(truth))
        return plain(found), len(truth), ""

    def _truth(self, ds: Networks) -> tuple[Any, Any, str]:
        """Positions and labels (codes, or numbers (V, k)) of the people whose label is known."""
        names = (self.target,) if isinstance(self.target, str) else self.target or ()
        table = ds.table
        if names and table is not None and set(names) <= set(table.columns):
            known = np.flatnonzero(table[list(names)].notna().all(axis=1).to_numpy())
            if not len(known):
                return known, None, ""
            try:
                labelled = ds.with_target(list(names), self.classes, self.model.task, missing="drop")
            except DataError as error:
                return known, None, str(error)
        elif ds.y is not None and ds.task == self.model.task and self._is_named_alike(ds):
            known, labelled = np.arange(len(ds)), ds
        else:
            return [], None, ""
        if self.classes is None:
            truth = np.asarray(labelled.y, np.float64).reshape(len(known), -1)
            fits = truth.shape[1] == self.model.n_outputs
            return known, truth if fits else None, "" if fits else "the number of targets is another"
        texts = labelled.label_names().tolist()
        other = sorted(set(texts) - set(self.classes))
        if other:
            return known, None, f"the labels {shown(other)} are none of the model's ({shown(self.classes)})"
        return known, np.array([self.classes.index(text) for text in texts], np.int64), ""

    def _is_named_alike(self, ds: Networks) -> bool:
        return ds.target == self.target or None in {ds.target, self.target} or UNNAMED in {ds.target, self.target}


def write_predictions(predictions: Predictions, path: str | Path) -> None:
    """Write the columns as a table (.tsv), all or nothing.

    A text that a spreadsheet would take for a formula (=…, +…, -…, @…) gets a ' in front, unless it is a number.
    """
    columns = predictions.columns()
    rows = [columns, *zip(*columns.values(), strict=True)]
    text = "".join("\t".join(tsv_field(_no_formula(value)) for value in row) + "\n" for row in rows)
    write(Path(path), text.encode("utf-8", "backslashreplace"))


def _no_formula(value: Any) -> Any:
    if not (isinstance(value, str) and value.startswith(_FORMULA)):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def given_names(ds: Networks) -> tuple[str, ...] | None:
    """The names of the nodes, None where they were only numbered.

    >>> given_names(Networks(np.eye(2)[None])), given_names(Networks(np.eye(2)[None], nodes=["a", "b"]))
    (None, ('a', 'b'))
    """
    names = tuple(ds.nodes.tolist())
    return None if names == tuple(names_or_numbers(None, len(names), "nodes", "node", []).tolist()) else names


def require_definite(ds: Networks, backbone: Any, remedy: str) -> None:
    """Refuse networks whose logarithm a backbone cannot take, naming whose they are."""
    if backbone not in NEEDS_SPD:
        return
    wrong = lowest_eigenvalues(ds.matrices) <= NEEDS_SPD[backbone] * ds.n_nodes * EPS
    if wrong.any():
        raise NotSPDError(singular(ds, wrong, f"backbone {backbone}", remedy))


def singular(ds: Networks, wrong: Any, who: str, remedy: str) -> str:
    """Which matrices are not positive definite, who needs that, and what to do."""
    return (
        f"{who} needs positive definite matrices, but {wrong.sum()} of {len(ds)} are not (subjects "
        f"{shown(ds.subjects[wrong])}; a correlation of {ds.n_nodes} nodes from fewer than {ds.n_nodes + 1} frames "
        f"never is): {remedy}"
    )


def plain(scores: dict[str, torch.Tensor]) -> Scores:
    """Scores of one run as numbers, None where undefined."""
    return {name: float(value) if value.isfinite() else None for name, value in scores.items()}


def _differing(names: tuple[str, ...], expected: tuple[str, ...]) -> str:
    """Which nodes are missing, with the nearest names on offer, and which the model does not know."""
    missing = [name for name in expected if name not in set(names)]
    extra = [name for name in names if name not in set(expected)]
    problems = []
    if missing:
        words = [f"{name}{_nearest(name, extra)}" for name in missing[:_NEAREST_SHOWN]] + missing[_NEAREST_SHOWN:]
        problems.append(f"{len(missing)} of the model's {len(expected)} nodes are missing: {shown(words)}")
    if extra:
        problems.append(f"{len(extra)} of the {len(names)} nodes are not the model's: {shown(extra)}")
    remedy = "name them as in training" if missing else "leave those out: rmixup import SOURCE OUT --drop-nodes NAMES"
    return f"the networks have other nodes than the model: {'; '.join(problems)}; {remedy}"


def _nearest(name: str, offered: list[str]) -> str:
    folded = {other.casefold(): other for other in offered}
    near = difflib.get_close_matches(name.casefold(), folded, n=1)
    return f" (nearest: {folded[near[0]]})" if near else ""
