"""Does augmentation help on these networks? Nested cross-validation with scikit-learn, linear models beside it.

Each model is searched inside the training networks and predicts the people left out, whole sites where there are sites.
Two tables come out: a score for each fold, and the prediction of every person by models that never saw them.

Run it on simulated people:  python scikit_learn.py --small
Run it on yours:             python scikit_learn.py my-cohort --target diagnosis --groups site --out found
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold

import rmixup
from rmixup import NetworkClassifier, NetworkRegressor, Networks
from rmixup.study.statistics import corrected_t

REFERENCE = "mlp, none"
# Fewer sites cannot be left out twice, by the outer folds and by the search within.
LEAST_SITES = 4


def arguments() -> argparse.Namespace:
    """What was typed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path, help="what rmixup.load reads; simulated people if left out")
    parser.add_argument("--target", help="column to predict")
    parser.add_argument("--groups", help="column of sites: each is left out once")
    parser.add_argument("--regularize", help="shrink=0.05, where there are fewer frames than nodes")
    parser.add_argument("--folds", type=int, default=5, help="outer folds; never more than there are sites")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--small", action="store_true", help="few people and epochs: see it run, conclude nothing")
    parser.add_argument("--out", type=Path, default=Path("found"), help="folder of the two tables")
    return parser.parse_args()


def cohort(given: argparse.Namespace) -> Networks:
    """The networks, positive definite, with labels; what the doctor finds is said first."""
    if given.data is None:
        ds = rmixup.simulate(n_subjects=90 if given.small else 200, n_nodes=20, n_frames=60)
    else:
        ds = rmixup.load(given.data, target=given.target, groups=given.groups)
        ds = ds if ds.has_matrices else ds.connectivity("correlation")
    ds = ds.regularize(given.regularize) if given.regularize else ds
    report = rmixup.check(ds)
    print(report)
    if not report.ok:
        sys.exit("rmixup found errors in these data: do what stands above, then run this again")
    return ds


def whole(ds: Networks) -> np.ndarray:
    """Who must be left out together: a site, or else a person, who may have several networks."""
    sites = ds.groups is not None and len(np.unique(ds.groups)) >= LEAST_SITES
    return ds.groups if sites else ds.subjects


def models(ds: Networks, folds: int, epochs: int) -> dict[str, GridSearchCV]:
    """A search for each: its settings are chosen by folds of the training networks, whole sites again."""
    numbers = ds.task == "regression"
    kind, score = (NetworkRegressor, "r2") if numbers else (NetworkClassifier, "roc_auc_ovr")
    mlp = {"backbone": "mlp", "epochs": epochs, "select": "loss", "random_state": 0}
    grids = {
        "linear": (kind("linear", random_state=0), {"backbone_options": [{"C": c} for c in (0.01, 1.0)]}),
        "tangent": (kind("tangent", random_state=0), {"backbone_options": [{"C": c} for c in (0.01, 1.0)]}),
        REFERENCE: (kind(augment="none", **mlp), {"learning_rate": [3e-4, 3e-3]}),
        "mlp, rmixup": (kind(augment="rmixup", **mlp), {"learning_rate": [3e-4, 3e-3]}),
    }
    units = len(np.unique(whole(ds)))
    inner = min(3, units - math.ceil(units / folds))  # never more than are left for training
    return {
        name: GridSearchCV(model, grid, scoring=score, cv=GroupKFold(inner)) for name, (model, grid) in grids.items()
    }


def left_out(ds: Networks, model: GridSearchCV, folds: int) -> tuple[list[float], pd.DataFrame]:
    """The score of each outer fold, and what is predicted for everybody by a model that did not see them."""
    labels = ds.y if ds.task == "regression" else ds.label_names()
    scores, found = [], []
    for fold, (train, test) in enumerate(GroupKFold(folds).split(ds.matrices, labels, whole(ds))):
        model.fit(ds.matrices[train], labels[train], groups=whole(ds)[train])
        told = pd.DataFrame({"subject": ds.subjects[test], "fold": fold, "true": labels[test]})
        told["predicted"] = model.predict(ds.matrices[test])
        if ds.task == "regression":
            scores.append(r2_score(labels[test], told["predicted"]))
        else:
            p = model.predict_proba(ds.matrices[test])
            told[[f"p({name})" for name in model.classes_]] = p
            scores.append(auroc(labels[test], p, model.classes_))
        found.append(told)
    return scores, pd.concat(found)


def auroc(true: np.ndarray, p: np.ndarray, classes: np.ndarray) -> float:
    """NaN where a fold lacks a class: its AUROC is not defined, and no number stands in for it."""
    if len(np.unique(true)) < len(classes):
        return float("nan")
    return float(roc_auc_score(true, p[:, 1] if len(classes) == 2 else p, multi_class="ovr", labels=classes))


def main() -> None:
    """Search and predict, write the tables, say what they show."""
    given = arguments()
    ds = cohort(given)
    folds = min(3 if given.small else max(given.folds, 2), len(np.unique(whole(ds))))
    epochs = 8 if given.small else given.epochs
    found = {name: left_out(ds, model, folds) for name, model in models(ds, folds, epochs).items()}
    scores = pd.DataFrame({name: score for name, (score, _) in found.items()}).rename_axis("fold")
    people = pd.concat({name: told for name, (_, told) in found.items()}, names=["model"]).reset_index("model")

    given.out.mkdir(parents=True, exist_ok=True)
    scores.to_csv(given.out / "scores.csv")
    people.to_csv(given.out / "predictions.csv", index=False)
    score = "R²" if ds.task == "regression" else "AUROC"
    print(f"\n{score} of {folds} outer folds\n{scores.agg(['mean', 'std']).T.round(3)}\n")
    for name in scores.columns.drop(REFERENCE):
        difference = scores[name] - scores[REFERENCE]
        test = corrected_t(difference, test_to_train=1 / (folds - 1))
        print(f"{name} against {REFERENCE}: {difference.mean():+.3f}, p = {test.p:.2f} (corrected resampled t test)")
    print(f"\nWrote {given.out / 'scores.csv'} and {given.out / 'predictions.csv'}.")


if __name__ == "__main__":
    # A penalty that is too weak for the data is a setting the search rejects by itself.
    warnings.filterwarnings("ignore", message="lbfgs failed to converge")
    try:
        main()
    except rmixup.RMixupError as error:
        sys.exit(f"scikit_learn.py: {error}")
