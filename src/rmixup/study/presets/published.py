"""The figures that the paper published, as data: mean and standard deviation over five seeds.

R-Mixup: Riemannian Mixup for Biological Networks (KDD 2023): its tables of the overall performance with the
Transformer and with the GCN, and of the sample sizes. Shares are in percent. They stand beside ours only where a data
set is the paper's own (`rmixup.study.presets.datasets.DataSet.paper`). May not be here: computation.
"""

from __future__ import annotations

from typing import NamedTuple

from rmixup.study.presets.datasets import DATASETS
from rmixup.study.spec import Data


class Figure(NamedTuple):
    """A published score."""

    mean: float
    sd: float


# Backbone -> method -> its row: two scores of ABCD's sex, one of its cognition, two each of PNC, ABIDE and TCGA.
_ROWS = {
    "transformer": {
        "none":
            "95.28±0.32 87.68±1.31 60.21±1.53 74.85±4.93 66.57±6.29 "
            "73.32±4.11 66.00±3.66 35.33±11.52 45.00±10.79",
        "vmixup":
            "95.85±0.63 87.86±1.45 60.43±2.67 76.02±2.54 65.88±7.89 "
            "75.03±5.04 66.80±5.40 69.58±9.39 77.50±6.97",
        "dmixup":
            "94.55±2.84 87.17±3.45 60.96±1.82 76.15±4.58 68.82±6.29 "
            "72.92±4.93 67.40±5.64 70.28±12.30 75.83±12.98",
        "dropnode":
            "95.65±0.35 88.07±0.76 65.35±2.97 75.47±4.27 67.45±4.35 "
            "73.49±4.09 66.00±3.16 53.96±11.34 61.67±10.79",
        "dropedge":
            "95.28±0.39 87.54±0.60 76.44±1.82 72.89±5.70 66.27±5.31 "
            "70.68±6.14 64.20±5.12 67.57±5.14 75.00±5.10",
        "gmixup":
            "95.24±0.92 88.16±0.63 62.16±2.04 76.01±3.04 69.41±3.21 "
            "73.68±5.67 65.60±4.56 59.72±7.77 69.44±6.27",
        "cmixup":
            "96.01±0.48 88.40±1.44 59.68±1.15 75.29±2.52 69.02±5.48 "
            "74.69±4.40 66.40±3.36 67.50±6.90 76.67±6.32",
        "rmixup":
            "96.20±0.33 89.44±1.06 56.89±1.66 77.01±2.59 69.80±3.63 "
            "74.79±4.90 68.20±4.19 71.39±9.59 78.33±9.03",
    },
    "gcn": {
        "none":
            "78.82±0.62 71.55±0.43 80.85±4.69 59.14±5.66 60.00±4.72 "
            "55.09±6.91 55.20±6.18 30.49±6.89 40.83±6.18",
        "vmixup":
            "81.47±0.79 73.97±0.79 80.35±3.09 63.63±3.80 61.76±3.25 "
            "58.49±6.58 56.40±3.91 38.50±9.22 46.67±11.18",
        "dmixup":
            "81.30±0.35 73.67±0.39 80.90±9.48 58.68±6.24 58.43±5.99 "
            "60.19±6.58 55.40±6.15 37.67±5.47 50.00±4.17",
        "dropnode":
            "80.77±2.02 73.18±2.09 88.11±10.59 63.65±5.04 61.57±5.16 "
            "59.49±4.99 56.60±5.55 29.58±7.69 39.17±10.46",
        "dropedge":
            "79.98±1.54 72.23±1.37 85.98±2.31 56.61±2.72 56.67±2.89 "
            "56.58±6.78 54.80±4.76 39.44±7.72 50.00±7.80",
        "gmixup":
            "81.30±1.07 73.90±0.86 81.28±3.46 57.25±3.75 57.45±2.91 "
            "62.43±2.94 60.40±3.44 38.64±8.47 49.17±9.03",
        "cmixup":
            "81.62±1.65 73.62±1.80 78.86±3.51 60.88±7.24 58.24±7.61 "
            "60.22±9.32 57.40±5.32 34.17±11.74 46.67±15.14",
        "rmixup":
            "82.85±1.86 75.86±1.88 74.88±2.03 64.39±5.05 62.31±3.32 "
            "63.03±5.58 59.67±5.96 44.78±8.64 48.44±8.61",
    },
}  # fmt: skip
_COLUMNS = (
    ("abcd-sex", "auroc"), ("abcd-sex", "accuracy"), ("abcd-cognition", "mse"), ("pnc", "auroc"), ("pnc", "accuracy"),
    ("abide", "auroc"), ("abide", "accuracy"), ("tcga", "macro_precision"), ("tcga", "macro_recall"),
)  # fmt: skip
# Percent of the training data -> none, vmixup, cmixup, rmixup; AUROC of ABCD's sex, MSE of its cognition.
_SIZES = {
    ("abcd-sex", "auroc"): {
        10: "87.14±1.15 88.99±0.75 88.72±1.13 90.21±0.64",
        20: "90.60±0.91 91.11±0.54 91.49±0.89 92.72±0.64",
        30: "92.60±0.51 93.45±0.35 93.33±0.78 93.93±0.55",
        40: "92.84±0.40 94.06±0.48 93.95±0.53 94.12±0.21",
        50: "94.18±0.51 95.20±0.39 95.03±0.57 94.78±0.98",
        60: "94.22±0.44 95.19±0.54 95.17±0.32 95.65±0.37",
        70: "94.18±0.40 95.51±0.18 95.49±0.28 95.07±0.18",
        80: "95.18±0.31 95.60±0.42 95.73±0.51 95.94±0.31",
        90: "95.55±0.86 95.92±0.34 95.49±0.73 95.24±0.65",
        100: "95.28±0.32 95.85±0.63 96.01±0.48 96.20±0.33",
    },
    ("abcd-cognition", "mse"): {
        10: "73.07±2.75 77.00±4.58 71.22±1.68 70.69±1.06",
        20: "69.70±2.75 69.80±2.42 69.30±3.21 66.50±2.50",
        30: "65.97±2.48 65.84±1.11 64.31±0.57 63.50±1.61",
        40: "63.91±4.07 63.14±1.08 61.88±2.93 61.15±1.80",
        50: "61.89±3.85 63.45±1.65 61.26±1.31 60.82±2.71",
        60: "59.47±1.59 60.32±0.94 60.20±1.58 58.75±1.65",
        70: "62.35±2.28 61.15±1.51 60.54±3.57 60.17±0.50",
        80: "59.85±1.47 60.31±1.07 60.85±3.84 56.78±2.05",
        90: "61.17±3.36 61.51±0.78 60.35±0.93 57.45±3.39",
        100: "60.21±1.53 60.43±2.67 59.68±1.15 56.89±1.66",
    },
}
SIZED_METHODS = ("none", "vmixup", "cmixup", "rmixup")


def _figures(row: str) -> list[Figure]:
    return [Figure(*map(float, entry.split("±"))) for entry in row.split()]


# (data set, backbone, method, score) -> figure.
PUBLISHED: dict[tuple[str, str, str, str], Figure] = {
    (data, backbone, method, score): figure
    for backbone, rows in _ROWS.items()
    for method, row in rows.items()
    for (data, score), figure in zip(_COLUMNS, _figures(row), strict=True)
}
# (data set, share of the training data, method, score) -> figure, with the Transformer.
PUBLISHED_SIZES: dict[tuple[str, float, str, str], Figure] = {
    (data, percent / 100, method, score): figure
    for (data, score), rows in _SIZES.items()
    for percent, row in rows.items()
    for method, figure in zip(SIZED_METHODS, _figures(row), strict=True)
}


def data_set(data: Data) -> str | None:
    """The paper's data set that this is, prepared as in the paper, or None.

    >>> data_set(Data(preset="abide-100", path="abide")), data_set(Data(preset="abide-100", path="abide", nodes=50))
    ('abide', None)
    """
    known = DATASETS.get(data.preset or "")
    if known is None or known.paper is None:
        return None
    as_published = Data(preset=data.preset, path=data.path)
    return known.paper if data == as_published else None
