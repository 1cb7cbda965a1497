"""Explain a model: its maps over refits, their stability, a null by permuted labels, and what to be cautious of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rmixup.augment.labels import Labels
from rmixup.data.networks import Networks
from rmixup.errors import DataError
from rmixup.explain.atlas import FROM_NAMES, Systems, coordinates_of, systems_of
from rmixup.explain.attribution import attribute, method_of
from rmixup.explain.maps import (
    Floats,
    agreements,
    correlations,
    membership,
    node_sums,
    pack,
    pair_sums,
    pairs,
    shares,
    top_count,
    tops,
    unit,
)
from rmixup.explain.refits import CHANCE, SCORE, Cohort, Design, Listener, Maps, Null, Refitter
from rmixup.explain.result import LEVEL, Explanation, Prediction, Stability
from rmixup.train.folder import load_model
from rmixup.train.model import is_baseline
from rmixup.train.predictor import Predictor

if TYPE_CHECKING:
    import torch

# By default: models that are solved get a null, those that are trained would take this many times the training.
PERMUTATIONS = 100
LEAST_PERMUTATIONS = round(1 / LEVEL) - 1
# Where no permutation says what chance is, halves must agree by more than this. Of 30 simulated cohorts without an
# effect (100 people of 20 nodes, 200 of 40) the maps agreed by up to 0.40 in linear and 0.76 in tangent, for few
# signals carry most of them; of 16 by up to 0.18 in gcn and 0.07 in mlp.
NEAR_CHANCE = {"weights": 0.4, "integrated-gradients": 0.2, "pattern": 0.6}
_ONE_SIDED = 1.645
# Attributions that add up worse than this are told of.
_ADDS_UP = 0.05


def explain(
    model: Predictor | str | Path,
    ds: Networks,
    *,
    method: str = "auto",
    folds: int = 2,
    repeats: int = 3,
    permutations: int | None = None,
    systems: Systems = FROM_NAMES,
    coordinates: str | Path | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    listen: Listener | None = None,
) -> Explanation:
    """Say which edges, nodes and systems a model goes by, and how far that can be trusted.

    The model is fitted anew, with its own settings, on random halves of the people, and each refit is explained in
    the people that it has not seen. The maps are averaged; how far those of two halves agree is the stability, whose
    chance level is 0 because halves share nobody.

    Parameters
    ----------
    model : Predictor, or the folder of one
    ds : Networks
        Of the model's nodes. Where they have labels of the model's target the model is fitted anew; else it is
        explained alone, and nothing is known of stability.
    method : one of `rmixup.explain.attribution.METHODS`
        "auto": weights for linear, the pattern for tangent, integrated gradients for networks.
    folds, repeats : int
        So many parts, so many times; each refit learns from all parts but one. 0 repeats: the model alone.
    permutations : int, optional
        Of the labels, each with all refits. None: 100 where models are solved, 0 where they are trained.
    systems : see `rmixup.explain.atlas.systems_of`
    coordinates : path, optional
        A table of nodes with x, y and z, where the data do not say where their nodes lie.
    seed : int
        Of parts and permutations.
    device : device or None
    listen : function of (what, done, total), optional

    >>> import rmixup
    >>> from rmixup.train.cohort import Settings, train
    >>> ds = rmixup.simulate(n_subjects=60, n_nodes=14, n_frames=60)
    >>> told = explain(train(ds, Settings("linear")), ds, permutations=19)
    >>> told
    Explanation(class-2, 14 nodes, 6 refits)
    >>> told.edges().columns.tolist()[:7]
    ['source', 'target', 'source_system', 'target_system', 'importance', 'signed', 'stability']
    """
    predictor = model if isinstance(model, Predictor) else load_model(model)
    solved = is_baseline(predictor.model.backbone)
    count = (PERMUTATIONS if solved and repeats else 0) if permutations is None else permutations
    design = _checked(Design(folds, repeats, count, seed))
    how = method_of(predictor.model, method)
    accepted, notes = predictor.accept(ds)
    ordered, _ = predictor._in_order(ds)  # what is computed from series comes without labels and coordinates
    nodes = predictor.nodes or tuple(ordered.nodes.tolist())
    groups, whence = systems_of(nodes, systems)
    places = ordered.coordinates if coordinates is None else coordinates_of(nodes, coordinates)
    x = np.array(accepted.matrices, np.float64)
    alone = _alone(predictor, x, how, device)
    cohort, why = _cohort(predictor, ordered, x) if repeats else (None, "no repeats were asked for")
    maps, null = alone, None
    if cohort is not None:
        refitter, parts = Refitter(predictor, how, device), _parts(cohort, design)
        maps = refitter.maps(cohort, parts, listen)
        null = refitter.null(cohort, parts, design, listen) if count else None
    stability = None if cohort is None else _stability(maps, null, design, how, len(nodes))
    prediction = None if cohort is None else _prediction(maps, null, cohort)
    signed = maps.signed.mean(0)
    residual = float(maps.residuals.mean())
    record = {
        "model": _described(predictor),
        "method": how,
        "networks": len(ds),
        "explained": len(ds) if cohort is None else len(cohort.x),
        "refits": 0 if cohort is None else len(maps.signed),
        **(design if cohort is not None else design._replace(repeats=0, permutations=0))._asdict(),
        "within_groups": bool(count) and cohort is not None and cohort.groups is not None,
        "systems": whence,
        "steps": maps.steps,
        "residual": residual,
        "agreement_with_this_model": float(agreements(np.stack([signed, alone.signed[0]]), [(0, 1)])[0]),
        "not_refitted_because": why,
        "stability": None if stability is None else asdict(stability),
        "prediction": None if prediction is None else asdict(prediction),
    }
    return Explanation(
        nodes=nodes,
        systems=groups,
        coordinates=places,
        outputs=_outputs(predictor),
        signed=shares(signed),
        absolute=maps.absolute.mean(0),
        pattern=maps.pattern.mean(0),
        this_model=shares(alone.signed[0]),
        stability_of_edges=None if cohort is None else tops(maps.signed, len(nodes)).mean(0),
        same_sign=None if cohort is None else (np.sign(maps.signed) == np.sign(signed)).mean(0),
        p={} if null is None else _p_values(signed, null.signed, len(nodes), groups),
        stability=stability,
        prediction=prediction,
        cautions=_cautions(how, stability, prediction, residual, why),
        notes=[*notes, *_notes(predictor, record)],
        record=record,
    )


def _checked(design: Design) -> Design:
    least = {"folds": 2, "repeats": 0, "permutations": 0}
    wrong = [
        f"{name} must be at least {limit}, but is {getattr(design, name)}"
        for name, limit in least.items()
        if getattr(design, name) < limit
    ]
    if 0 < design.permutations < LEAST_PERMUTATIONS:
        wrong.append(f"permutations must be 0 or at least {LEAST_PERMUTATIONS}: of fewer no p-value reaches {LEVEL}")
    if design.permutations > 0 and not design.repeats:
        wrong.append("permutations need refits: give 1 repeat or more")
    if wrong:
        raise DataError("; ".join(wrong))
    return design


def _alone(predictor: Predictor, x: Floats, method: str, device: Any) -> Maps:
    """The map of the model as it is, against the mean of these people."""
    told = attribute(predictor.model, x, x.mean(0), method, device)
    pattern = correlations(x, told.outputs)
    signed = unit(pattern if method == "pattern" else told.slopes * pack(x.std(0)))
    unknown, residual = np.array([np.nan]), np.array([told.residual])
    return Maps(signed[None], shares(told.absolute)[None], pattern[None], unknown, residual, told.steps)


def _cohort(predictor: Predictor, ds: Networks, x: Floats) -> tuple[Cohort | None, str]:
    """Who has a label of the model's target; or why nobody does."""
    known, truth, why = predictor._truth(ds)
    if truth is None:
        return None, why or "the data have no labels of the model's target"
    truth = np.array(truth)  # torch wants it writeable
    classes = len(predictor.classes or ())
    labels = Labels(truth, None, classes) if classes else Labels(None, truth)
    if classes and len(np.unique(truth)) < classes:
        return None, "the data lack one of the model's classes"
    named = {name: None if (own := getattr(ds, name)) is None else own[known] for name in ("groups", "families")}
    return Cohort(x[known], labels, ds.subjects[known], **named), ""


def _parts(cohort: Cohort, design: Design) -> Any:
    try:
        return cohort.parts(design)
    except DataError as error:
        raise DataError(f"{error}; or explain the model alone, with 0 repeats") from error


def _outputs(predictor: Predictor) -> tuple[str, ...]:
    if predictor.classes is not None:
        return predictor.classes[1:] if len(predictor.classes) == 2 else predictor.classes
    target = predictor.target
    count = predictor.model.n_outputs
    names = (target,) if isinstance(target, str) else target or ()
    return tuple(names) if len(names) == count else tuple(f"target {k + 1}" for k in range(count))


def _described(predictor: Predictor) -> dict[str, Any]:
    model = predictor.model
    backbone = model.backbone if isinstance(model.backbone, str) else model.backbone.__name__
    return {"backbone": backbone, "task": model.task, "target": predictor.target, "classes": predictor.classes}


# ---- how far to trust it


def _stability(maps: Maps, null: Null | None, design: Design, method: str, n: int) -> Stability:
    agreed = agreements(maps.signed, design.pairs)
    mean, top = float(agreed.mean()), tops(maps.signed, n)
    count = top_count(n)
    chance = 0.0 if design.shared == 0 else None
    p = None if null is None else _p(mean, null.agreement)
    return Stability(
        agreement=mean,
        lowest=float(agreed.min()),
        chance=chance if null is None else float(null.agreement.mean()),
        chance_high=None if null is None else _high(null.agreement),
        p=p,
        above_chance=mean > NEAR_CHANCE[method] if p is None else p <= LEVEL,
        overlap=float(np.mean([(top[a] & top[b]).sum() / count for a, b in design.pairs])),
        overlap_chance=count / (n * (n - 1) // 2),
        top=count,
        shared=design.shared,
    )


def _prediction(maps: Maps, null: Null | None, cohort: Cohort) -> Prediction:
    mean, name = float(maps.scores.mean()), SCORE[cohort.labels.task]
    high = _chance_high(cohort) if null is None else _high(null.scores)
    p = None if null is None else _p(mean, null.scores)
    return Prediction(
        score=name,
        mean=mean,
        lowest=float(maps.scores.min()),
        highest=float(maps.scores.max()),
        chance=CHANCE[name],
        chance_high=high,
        p=p,
        above_chance=mean > high if p is None else p <= LEVEL,
    )


def _high(null: Floats) -> float:
    return float(np.quantile(null, 1 - LEVEL))


def _p(observed: float, null: Floats) -> float:
    return float((1 + (null >= observed).sum()) / (1 + len(null)))


def _chance_high(cohort: Cohort) -> float:
    """The score that guessing stays below with 95 %, from the number of people: of ranks, or of a correlation."""
    n = len(cohort.x)
    if cohort.labels.codes is None:
        return float(_ONE_SIDED / max(n - 1, 1) ** 0.5)
    counts = np.bincount(cohort.labels.codes, minlength=cohort.labels.n_classes).astype(float)
    return float(0.5 + _ONE_SIDED * np.sqrt((n + 1) / (12 * counts * (n - counts))).mean())


def _p_values(signed: Floats, null: Floats, n: int, systems: tuple[str, ...] | None) -> dict[str, Floats]:
    """Shares of permutations in which an edge, node, system or pair has as much, and in which any one has.

    What is compared is the size of the mean over refits, before it is scaled: maps that agree less have less of it.
    """
    levels: dict[str, Callable[[Floats], Floats]] = {"edges": lambda one: one, "nodes": lambda one: node_sums(one, n)}
    if systems is not None:
        _, member = membership(systems)
        levels["systems"] = lambda one: node_sums(one, n) @ member / member.sum(0)
        levels["pairs"] = lambda one: pair_sums(one, member) / pairs(member)[2]
    observed, permuted = np.abs(signed).mean(-2), np.abs(null).mean(-2)
    found = {}
    for name, level in levels.items():
        here, there = level(observed), level(permuted)
        own = (1 + (there >= here).sum(0)) / (1 + len(there))
        any_one = (1 + (there.max(-1)[:, None] >= here).sum(0)) / (1 + len(there))
        found[name] = np.stack([own, any_one])
    return found


def _cautions(
    method: str, stability: Stability | None, prediction: Prediction | None, residual: float, why: str
) -> list[str]:
    found = []
    if stability is None or prediction is None:
        found.append(
            f"The model was explained alone ({why}): nothing here tells whether other people would give the same map, "
            "or whether the model has learned anything."
        )
    else:
        found += _doubts(stability, prediction)
    if method == "integrated-gradients" and residual > _ADDS_UP:
        found.append(f"Attributions miss the output that they should add up to by {100 * residual:.0f} %.")
    return found


def _doubts(stability: Stability, prediction: Prediction) -> list[str]:
    """What the refits say against the maps."""
    found = []
    if not prediction.above_chance:
        found.append(
            f"The refits hardly predict people they have not seen ({prediction.score} {prediction.mean:.2f}; guessing "
            f"stays below {prediction.chance_high:.2f} in 95 of 100 cases): these maps explain noise."
        )
    if not stability.above_chance:
        found.append(
            f"Maps of different people hardly agree (correlation {stability.agreement:.2f}): do not read single edges "
            "or nodes out of them."
        )
    if stability.shared > 0 and stability.p is None:
        found.append(
            f"Two refits share {100 * stability.shared:.0f} % of the people they learned from, so that their maps "
            "agree also where there is nothing to learn: 2 folds, or permutations, show how far."
        )
    return found


# ---- what was done


_WAYS = {
    "weights": "the slope of the model for one standard deviation of the edge",
    "pattern": "the correlation of the edge with the model's output (Haufe's activation pattern)",
    "integrated-gradients": (
        "the gradient averaged between the mean network of the training people and each person (integrated "
        "gradients, {steps} points), for one standard deviation of the edge"
    ),
}


def _notes(predictor: Predictor, record: dict[str, Any]) -> list[str]:
    """What was done, in sentences."""
    way = _WAYS[record["method"]].format(**record)
    notes = [f"Explained: what drives {record['model']['backbone']} {_direction(predictor)}, by {way}"]
    if record["refits"]:
        size = "half" if record["folds"] == 2 else f"{record['folds'] - 1} of {record['folds']} parts"
        notes.append(
            f"Fitted anew {record['refits']} times with the model's settings, on {size} of {record['explained']} "
            "people each; explained in the others; the maps were averaged"
        )
    if record["permutations"]:
        within = " within their groups" if record["within_groups"] else ""
        notes.append(
            f"Labels were permuted{within} {record['permutations']} times, with all refits each time; p_corrected is "
            "the share of permutations in which any edge (node, system) reached as much"
        )
    return notes


def _direction(predictor: Predictor) -> str:
    classes = predictor.classes
    if classes is None:
        return f"higher (+) or lower (−) {predictor.target or 'values'}"
    if len(classes) == 2:
        name = f"{predictor.target} = " if isinstance(predictor.target, str) else ""
        return f"towards {name}{classes[1]} (+), against {classes[0]} (−)"
    return "towards each class (+), against the mean of all"
