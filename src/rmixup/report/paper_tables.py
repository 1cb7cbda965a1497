"""Tables as Markdown and LaTeX: a mean and its deviation in one cell, numbers with the digits that mean something.

The CSV beside them keeps every column and digit. May not be here: computation.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

NONE = "–"
_HEADS = {"auroc": "AUROC", "mse": "MSE", "p": "p", "p_holm": "p (Holm)"}
# What means something else in LaTeX's text.
_LATEX = {"\\": r"\textbackslash{}", "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}",
          "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "α": r"$\alpha$", "×": r"$\times$",
          "−": r"$-$", "–": "--", "<": r"$<$"}  # fmt: skip


def markdown(table: pd.DataFrame) -> str:
    """A pipe table.

    >>> import pandas as pd
    >>> print(markdown(pd.DataFrame({"method": ["none"], "auroc_percent": [73.3], "auroc_percent_sd": [4.1]})))
    | method | AUROC (%) |
    |:--|--:|
    | none | 73.30 ± 4.10 |
    <BLANKLINE>
    """
    heads, lines, texts = rendered(table)
    escaped = [[cell.replace("|", r"\|") for cell in line] for line in [heads, *lines]]
    rule = "|" + "|".join(":--" if text else "--:" for text in texts) + "|"
    told = [f"| {' | '.join(line)} |" for line in escaped]
    return "\n".join([told[0], rule, *told[1:]]) + "\n"


def latex(table: pd.DataFrame) -> str:
    """A tabular of booktabs."""
    heads, lines, texts = rendered(table)
    told = [" & ".join(map(_escaped, line)) + r" \\" for line in [heads, *lines]]
    columns = "".join("l" if text else "r" for text in texts)
    body = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", told[0], r"\midrule", *told[1:], r"\bottomrule"]
    return "\n".join([*body, r"\end{tabular}"]) + "\n"


def rendered(table: pd.DataFrame) -> tuple[list[str], list[list[str]], list[bool]]:
    """Heads, cells, and whether a column is text; intervals are left to the CSV."""
    names = [str(name) for name in table.columns]
    aside = {f"{name}{end}" for name in names for end in ("_sd", "_low", "_high")}
    shown = [name for name in names if name not in aside]
    columns = [[_cell(table, name, row) for row in range(len(table))] for name in shown]
    texts = [any(isinstance(value, str) for value in table[name]) for name in shown]
    return [_head(name) for name in shown], [list(line) for line in zip(*columns, strict=True)], texts


def _head(name: str) -> str:
    published = name.endswith("_published")
    bare = name.removesuffix("_published").removesuffix("_percent")
    told = _HEADS.get(bare, bare.replace("_", " "))
    share = " (%)" if name.removesuffix("_published").endswith("_percent") else ""
    return f"{told}{share}{', published' if published else ''}"


def _cell(table: pd.DataFrame, name: str, row: int) -> str:
    value = table[name].iloc[row]
    if f"{name}_sd" not in table:
        return _number(value, "_percent" in name)
    sd = table[f"{name}_sd"].iloc[row]
    if _number(value) == NONE or _number(sd) == NONE:
        return _number(value, "_percent" in name)
    digits = 2 if "_percent" in name else _digits(float(sd))
    return f"{value:.{digits}f} ± {sd:.{digits}f}".replace("-", "−")


def _digits(sd: float) -> int:
    """Digits after the point, so that two of a deviation count; four at most.

    >>> _digits(0.0123), _digits(4.5), _digits(0.0)
    (3, 1, 4)
    """
    return 4 if sd <= 0 else min(4, max(0, 1 - math.floor(math.log10(sd))))


def _number(value: Any, share: bool = False) -> str:
    """Two digits after the point for percent; else four that count."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return NONE
    if isinstance(value, str | bool):
        return str(value)
    if not isinstance(value, float) and float(value).is_integer():
        return str(int(value))
    return (f"{value:.2f}" if share else f"{value:.4g}").replace("-", "−")


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text)
