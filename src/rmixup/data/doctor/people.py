"""Findings about the people: who is there twice, what the labels are, and what tells the label besides the network."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rmixup.data.doctor.finding import Checks, Patient, Told, counted, named, span
from rmixup.data.labels import shown
from rmixup.data.networks import Networks

Array = NDArray[Any]
Mask = NDArray[np.bool_]

RARE = 10  # with fewer, a 70/10/20 split leaves a class out of the validation or the test part
SIGNIFICANT = 0.01
STRONG = 0.2  # an association of this size (Cramér's V, correlation, correlation ratio) is told
AUROC_MARGIN = 0.05  # an AUROC this far from 0.5 is told
LENGTH_TELLS = 0.5  # share of the variance of t that lies between sites
SITE_SIZE = 5  # a site of fewer people may have one class by chance

MOTION_COLUMN = re.compile(
    r"(^|_)(mean_?fd|fd_?(mean|power|jenkinson)|framewise_displacement(_mean)?|mean_framewise_displacement"
    r"|(mean_?)?motion|(mean_?)?rms(d|_motion)?)($|_)",
    re.IGNORECASE,
)


class Association(NamedTuple):
    """How strongly two columns hang together: the measure's name, its value, its p-value, whether it is worth telling.

    `strength` is 0 for none, `higher` the class with the higher values where there are two.
    """

    measure: str
    value: float
    p: float
    told: bool
    strength: float
    higher: int | None = None

    def words(self, ds: Networks) -> str:
        """The number in words."""
        where = ""
        if self.higher is not None and ds.classes is not None:
            where = f", higher where {ds.target or 'the label'} is {ds.classes[self.higher]}"
        return f"{self.measure} {self.value:.2f}{where}, p = {self.p:.1g}"


_NONE = Association("association", 0.0, 1.0, False, 0.0)


# --- who is there


def duplicate_subjects(patient: Patient) -> Told | None:
    """Several networks of one person."""
    unique, counts = np.unique(patient.ds.subjects, return_counts=True)
    if not (counts > 1).any():
        return None
    return Told(
        f"{counted(int((counts > 1).sum()), 'subject')} occur more than once ({counts[counts > 1].sum()} of "
        f"{len(patient.ds)} networks): splits keep a subject's networks together, but they are not independent samples",
        "if they are several scans of a person, keep them, or one each (--runs); if ids were lost, correct them",
        unique[counts > 1].tolist(),
    )


def identical_matrices(patient: Patient) -> Told | None:
    """The same numbers under two names."""
    ds = patient.ds
    scan = patient.matrices if ds.has_matrices or patient.series is None else patient.series
    owners: dict[bytes, list[int]] = {}
    for row, digest in enumerate(scan.digests):
        owners.setdefault(digest, []).append(row)
    groups = [rows for rows in owners.values() if len(set(ds.subjects[rows].tolist())) > 1]
    if not groups:
        return None
    pairs = shown((" = ".join(ds.subjects[rows].tolist()) for rows in groups), 3)
    affected = np.isin(np.arange(len(ds)), np.concatenate(groups))
    return Told(
        f"{affected.sum()} networks hold the very same numbers under different names ({pairs}): one may be learned "
        "from while another is tested on",
        "find out whose they are; leave out the others: rmixup import SOURCE OUT --drop-subjects IDS",
        named(ds.subjects, affected),
    )


# --- labels


def no_labels(patient: Patient) -> Told | None:
    """Nothing to predict yet."""
    ds = patient.ds
    if ds.y is not None:
        return None
    columns = () if ds.table is None else tuple(ds.table.columns)
    choice = f"choose one of the columns {shown(columns, 8)}" if columns else "give a table (--labels FILE)"
    return Told("there are no labels: nothing can be learned from these networks yet", f"{choice}: --target COLUMN")


def missing_labels(patient: Patient) -> Told | None:
    """People who were left out for want of a label."""
    left_out = _recorded(patient.ds, "with_target", "dropped") + _recorded(patient.ds, "join", "without_row")
    if not left_out:
        return None
    return Told(
        f"{counted(len(left_out), 'person')} had no label, or no row in the table, and were left out",
        "nothing, if that was meant; else complete the table and import again",
        left_out,
    )


def extra_labels(patient: Patient) -> Told | None:
    """Rows of the table without a network."""
    extra = _recorded(patient.ds, "join", "without_network")
    if not extra:
        return None
    return Told(
        f"of the table's rows, {len(extra)} have no network",
        "nothing, if these people were left out on purpose; else look whether their files are missing",
        extra,
    )


def _recorded(ds: Networks, step: str, parameter: str) -> list[str]:
    """The people a step of the history names."""
    return [str(x) for s in ds.provenance.steps if s["step"] == step for x in s["parameters"].get(parameter) or ()]


def single_class(patient: Patient) -> Told | None:
    """Labels that are all the same."""
    y = patient.ds.y
    if y is None or not len(y) or (np.ptp(y, axis=0) != 0).all():
        return None
    value = patient.ds.label_names()[0] if patient.ds.classes else "a number"
    return Told(
        f"all {counted(len(y), 'person')} have the same label, {value}: there is nothing to tell apart",
        "choose another column (--target COLUMN), or the people with the other label too",
    )


def rare_class(patient: Patient) -> Told | None:
    """Classes too small to be in every part of a split."""
    ds = patient.ds
    if ds.y is None or ds.classes is None:
        return None
    counts = np.bincount(ds.y, minlength=len(ds.classes))
    if (counts >= RARE).all() or (counts > 0).sum() < 2:
        return None
    rare = [f"{ds.classes[k]} {counts[k]}" for k in np.flatnonzero(counts < RARE)]
    return Told(
        f"{counted(len(rare), 'class')} of {len(ds.classes)} have fewer than {RARE} people ({shown(rare, 8)}): a split "
        "cannot hold enough of them to learn from or to score",
        "join classes, or leave these people out: rmixup import SOURCE OUT --where COLUMN=VALUE",
        named(ds.subjects, counts[ds.y] < RARE),
    )


# --- what tells the label besides the network


def label_by_site(patient: Patient) -> Told | None:
    """Sites with other labels than others: a network may then tell the label by its site."""
    ds = patient.ds
    if ds.y is None or ds.groups is None or len(set(ds.groups.tolist())) < 2:
        return None
    found = [_with_sites(column, ds.groups, ds.task == "classification") for column in _columns(ds.y)]
    strongest = max(found, key=lambda association: association.strength)
    if not strongest.told:
        return None
    return Told(
        f"the site tells the label ({strongest.words(ds)}): a model can score by recognising the scanner",
        'split within sites (the default, stratify="y+group"), show leave-one-site-out results beside, and try '
        'pairs="same-group" when mixing',
    )


def one_class_site(patient: Patient) -> Told | None:
    """Sites where everybody has the same label."""
    ds = patient.ds
    if ds.y is None or ds.task != "classification" or ds.groups is None or np.ptp(ds.y) == 0:
        return None
    sites = [site for site in sorted(set(ds.groups.tolist())) if _has_one_class(ds.y[ds.groups == site])]
    if not sites:
        return None
    affected = np.isin(ds.groups, sites)
    return Told(
        f"{counted(len(sites), 'site')} have people of one class only ({shown(sites)}; {affected.sum()} people): there "
        "the site is the label",
        "leave these sites out, or report without them: rmixup import SOURCE OUT --where COLUMN=VALUE",
        named(ds.subjects, affected),
    )


def _has_one_class(labels: Array) -> bool:
    return len(labels) >= SITE_SIZE and bool(np.ptp(labels) == 0)


def length_tells_site(patient: Patient) -> Told | None:
    """Sites that record so many frames: the spectrum then tells the site."""
    ds = patient.ds
    if ds.frames is None or ds.groups is None or np.ptp(ds.frames) == 0:
        return None
    sites = sorted(set(ds.groups.tolist()))
    share = correlation_ratio(ds.frames, ds.groups)
    if len(sites) < 2 or share < LENGTH_TELLS:
        return None
    constant = sum(np.ptp(ds.frames[ds.groups == site]) == 0 for site in sites)
    return Told(
        f"the length of a series tells its site: t is constant within {constant} of {len(sites)} sites, and "
        f"{100 * share:.0f} % of its variance ({span(ds.frames)} frames) lies between sites; rank and shrinkage follow",
        f"use as many frames of everybody: rmixup import SOURCE OUT --frames {ds.frames.min()}",
    )


def length_tells_label(patient: Patient) -> Told | None:
    """Longer series for one label than for another."""
    ds = patient.ds
    if ds.y is None or ds.frames is None or np.ptp(ds.frames) == 0:
        return None
    found = [with_label(ds.frames.astype(float), y, ds.task == "classification") for y in _columns(ds.y)]
    strongest = max(found, key=lambda association: association.strength)
    if not strongest.told:
        return None
    return Told(
        f"the length of a series is linked to the label ({strongest.words(ds)}): shorter series give noisier "
        "networks, which a model can tell",
        f"use as many frames of everybody: rmixup import SOURCE OUT --frames {ds.frames.min()}",
    )


def motion(patient: Patient) -> Told | None:
    """A column of head motion that tells the label."""
    ds = patient.ds
    table = ds.table
    if ds.y is None or table is None:
        return None
    told = []
    for name in [c for c in table.columns if MOTION_COLUMN.search(str(c)) and c != ds.target]:
        values = _numbers(table[name])
        found = [with_label(values, y, ds.task == "classification") for y in _columns(ds.y)]
        told += [f"{name}: {association.words(ds)}" for association in found if association.told]
    if not told:
        return None
    return Told(
        f"head motion is linked to the label ({shown(told)}): a model can score by recognising motion",
        "match the groups on motion, or leave out people who moved; report how motion alone scores beside the model",
    )


# --- measures of association


def with_label(values: Array, label: Array, is_class: bool) -> Association:
    """How a number hangs together with the label: AUROC (two classes), correlation ratio (more), Spearman's ρ.

    >>> with_label(np.arange(8.0), np.array([0, 0, 0, 0, 1, 1, 1, 1]), True).value
    1.0
    """
    from scipy import stats

    known = np.isfinite(values)
    values, label = values[known], label[known]
    if not len(values) or np.ptp(values) == 0 or np.ptp(label) == 0:
        return _NONE
    if not is_class:
        rho, p = stats.spearmanr(values, label)
        return _judged("Spearman's ρ", float(rho), float(p), abs(float(rho)) / (STRONG / 2))
    groups = [values[label == k] for k in np.unique(label)]
    if len(groups) == 2:
        u, p = stats.mannwhitneyu(groups[1], groups[0])
        auroc = float(u) / (len(groups[0]) * len(groups[1]))
        higher = int(np.unique(label)[int(auroc >= 0.5)])
        return _judged("AUROC", max(auroc, 1 - auroc), float(p), abs(auroc - 0.5) / AUROC_MARGIN, higher)
    root = float(correlation_ratio(values, label) ** 0.5)
    return _judged("correlation ratio", root, float(stats.kruskal(*groups).pvalue), root / STRONG)


def _with_sites(label: Array, sites: Array, is_class: bool) -> Association:
    from scipy import stats

    names = np.unique(sites)
    if np.ptp(label) == 0:
        return _NONE
    if is_class:
        value, p = cramers_v(label, sites)
        return _judged("bias-corrected Cramér's V", value, p, value / STRONG)
    groups = [label[sites == name] for name in names]
    root = correlation_ratio(label, sites) ** 0.5
    return _judged("correlation ratio", root, float(stats.kruskal(*groups).pvalue), root / STRONG)


def _judged(measure: str, value: float, p: float, strength: float, higher: int | None = None) -> Association:
    """An association is told when it is both significant and as strong as the thresholds ask (strength 1)."""
    return Association(measure, value, p, bool(strength >= 1 and p < SIGNIFICANT), strength, higher)


def cramers_v(a: Array, b: Array) -> tuple[float, float]:
    """Bias-corrected Cramér's V of two categorical columns (Bergsma 2013) and the p-value of their independence.

    >>> cramers_v(np.array([0, 1] * 50), np.array(["x", "y"] * 50))[0] > 0.99
    True
    """
    from scipy.stats import chi2_contingency

    table = np.zeros((len(np.unique(a)), len(np.unique(b))))
    np.add.at(table, (np.unique(a, return_inverse=True)[1], np.unique(b, return_inverse=True)[1]), 1)
    chi2, p, freedom, _ = chi2_contingency(table, correction=False)
    total, (rows, columns) = len(a), table.shape
    phi2 = max(0.0, chi2 / total - freedom / (total - 1))
    smaller = min(rows - (rows - 1) ** 2 / (total - 1), columns - (columns - 1) ** 2 / (total - 1))
    return float(min(1.0, (phi2 / (smaller - 1)) ** 0.5)), float(p)


def correlation_ratio(values: Array, groups: Array) -> float:
    """Share of the variance of a number that lies between groups, corrected for chance (Kelley's ε²).

    >>> correlation_ratio(np.array([1.0, 1.0, 2.0, 2.0]), np.array(["a", "a", "b", "b"]))
    1.0
    """
    _, code = np.unique(groups, return_inverse=True)
    counts = np.bincount(code)
    means = np.bincount(code, weights=values) / counts
    within = float(((values - means[code]) ** 2).sum())
    total = float(((values - values.mean()) ** 2).sum())
    freedom = len(values) - len(counts)
    if total == 0 or freedom <= 0:
        return 0.0
    return max(0.0, 1 - (within / freedom) / (total / (len(values) - 1)))


def _columns(y: Array) -> list[Array]:
    """One column a target."""
    return list(y.reshape(len(y), -1).T)


def _numbers(column: Any) -> Array:
    import pandas as pd

    return np.asarray(pd.to_numeric(column, errors="coerce").to_numpy(dtype=float, na_value=np.nan))


PEOPLE: Checks = {
    "duplicate-subjects": ("warning", duplicate_subjects),
    "identical-matrices": ("error", identical_matrices),
    "no-labels": ("warning", no_labels),
    "missing-labels": ("info", missing_labels),
    "extra-labels": ("info", extra_labels),
    "single-class": ("error", single_class),
    "rare-class": ("warning", rare_class),
    "label-confounded-with-site": ("warning", label_by_site),
    "one-class-site": ("warning", one_class_site),
    "length-tells-site": ("warning", length_tells_site),
    "length-tells-label": ("warning", length_tells_label),
    "motion-confounded": ("warning", motion),
}
