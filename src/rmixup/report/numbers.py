"""Numbers as people read them: a true minus sign, as many digits as mean something, a dash where there is none."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rmixup.study.statistics import Measure

NONE = "–"


def number(value: float, digits: int = 2, sign: bool = False) -> str:
    """A number with so many digits after the point; small numbers keep two that count.

    >>> number(-1.234), number(float("nan")), number(0.00123), number(2, sign=True)
    ('−1.23', '–', '0.0012', '+2.00')
    """
    if not math.isfinite(value):
        return NONE
    plus = "+" if sign else ""
    small = 0 < abs(value) < 10**-digits
    return format(value, f"{plus}.2g" if small else f"{plus}.{digits}f").replace("-", "−")


def score(value: float, measured: Measure) -> str:
    """A score in the unit of its measure: shares in percent.

    >>> from rmixup.study.statistics import measure
    >>> score(0.7512, measure("auroc")), score(61.234, measure("mse"))
    ('75.1', '61.2')
    """
    scaled = value * measured.factor
    return number(scaled, 1 if measured.unit or abs(scaled) >= 10 else 3)


def amount(value: float, measured: Measure) -> str:
    """A difference of scores that is already in the unit of its measure.

    >>> from rmixup.study.statistics import measure
    >>> amount(1.25, measure("auroc"))
    '1.25 points'
    """
    return f"{number(value)} {measured.unit}".rstrip()


def p_value(p: float) -> str:
    """A p value; tiny ones are only said to be.

    >>> p_value(0.0304), p_value(1e-9), p_value(float("nan"))
    ('0.030', '< 0.001', '–')
    """
    if not math.isfinite(p):
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def listed(words: Sequence[str]) -> str:
    """Words as a list in a sentence.

    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
