"""Study E: does the parameter of R-Mixup's Beta distribution matter?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmixup.study.presets.findings import Findings
from rmixup.study.presets.training import (
    METHOD,
    REFERENCE,
    Outcome,
    Row,
    build,
    compared,
    counted,
    facts,
    mean_table,
    opening_sentences,
    split_table,
    test_to_train,
)
from rmixup.study.statistics import Comparison, compare, measure

if TYPE_CHECKING:
    from rmixup.study.presets.opening import Opened
    from rmixup.study.project import Study
    from rmixup.study.spec import Spec
    from rmixup.study.tables import Setting

NAME = "alpha"
ALPHAS = tuple(k / 10 for k in range(1, 11))
QUICK_ALPHAS = (0.1, 0.5, 1.0)
# The paper's choice, with which the others are compared.
USUAL = 1.0


def spec_for(found: Opened, *, quick: bool = False, repeats: int | None = None) -> Spec:
    """None, and R-Mixup with each α."""
    tried = [{"name": METHOD, "alpha": alpha} for alpha in (QUICK_ALPHAS if quick else ALPHAS)]
    return build(NAME, found, {"methods": [REFERENCE, *tried]}, quick=quick, repeats=repeats)


def finish(study: Study) -> Findings:
    """Tables "alpha" (a row a method, with its α), "comparisons" with none, "alphas" with α = 1, and "splits"."""
    import pandas as pd

    outcome = Outcome(study)
    by_name = {str(cell.method): dict(cell.method.options).get("alpha") for cell in study.cells}
    rows = [{**row, "alpha": by_name.get(row["method"])} for row in mean_table(outcome, [])]
    versus = [one for setting in outcome.judged for one in _against_usual(setting, outcome)]
    tables = {
        NAME: pd.DataFrame(rows),
        "alphas": pd.DataFrame([_row(one, by_name) for one in versus]),
        "comparisons": compared(outcome),
        "splits": split_table(outcome),
    }
    said = [*opening_sentences(outcome), *(line for one in outcome.judged for line in _sentences(one, versus))]
    return Findings(NAME, tables, facts(outcome), said)


def _name(alpha: float) -> str:
    return f"{METHOD} alpha={alpha}"


def _against_usual(setting: Setting, outcome: Outcome) -> list[Comparison]:
    """Every other α against α = 1, Holm over these."""
    values = {row.method: row.values for row in setting.rows if row.method.startswith(f"{METHOD} ")}
    return compare(values, _name(USUAL), measure(setting.score), test_to_train(outcome, setting))


def _row(one: Comparison, by_name: dict[str, float | None]) -> Row:
    low, high = one.interval
    return {
        "alpha": by_name[one.method], "against": USUAL, "score": one.measure.name, "gain": one.gain, "low": low,
        "high": high, "p": one.p, "p_holm": one.p_holm, "excluded_gain": one.excluded_gain,
        "excluded_loss": one.excluded_loss, "unit": one.measure.unit,
    }  # fmt: skip


def _sentences(setting: Setting, versus: list[Comparison]) -> list[str]:
    """What the α of which every split has a result say; how many lack one is said before."""
    rows = [row for row in setting.rows if row.method.startswith(f"{METHOD} ") and np.isfinite(row.mean)]
    judged = [one for one in versus if np.isfinite(one.p)]
    own = [one for one in setting.comparisons if one.method.startswith(f"{METHOD} ")]
    measured = measure(setting.score)
    unit = f" {measured.unit}" if measured.unit else ""
    said = []
    if rows:
        means, spread = np.array([row.mean for row in rows]), np.array([row.sd for row in rows])
        said.append(
            f"Over {len(rows)} values of α the mean {setting.score} of {METHOD} ranges over "
            f"{measured.factor * np.ptp(means):.2f}{unit}; between splits its standard deviation is "
            f"{measured.factor * spread.mean():.2f}{unit}."
        )
    against = f"Against α = {USUAL:g}, {counted(versus)} (p after Holm)"
    if judged:
        largest = max(max(one.excluded_gain, one.excluded_loss) for one in judged)
        against += f"; for each of them a difference above {largest:.2f}{unit} can be excluded"
    return [*said, f"{against}.", f"Against none, {counted(own)} (p after Holm)."]
