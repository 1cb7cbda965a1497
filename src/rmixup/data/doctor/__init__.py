"""The doctor: what is wrong with a data set, how bad it is, whom it concerns, and what to do about it.

Checks live in `values` (the numbers) and `people` (labels, sites, motion), one short function a finding; `FINDINGS`
lists them all. What may not be here: repair, which is asked for at import and recorded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import Any

from rmixup.data.doctor.finding import Checks, Finding, Patient, Severity, counted
from rmixup.data.doctor.people import PEOPLE
from rmixup.data.doctor.scan import MatrixScan, scan_matrices, scan_series
from rmixup.data.doctor.values import VALUES
from rmixup.data.labels import shown
from rmixup.data.networks import Networks
from rmixup.errors import DataError

FINDINGS: Checks = {**VALUES, **PEOPLE}
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")

_NAMES_SHOWN = 6


@dataclass(frozen=True)
class Report:
    """What the doctor found.

    Attributes
    ----------
    findings : list of Finding
        Errors first. Each has `code`, `severity` ("error", "warning", "info"), `message`, `remedy`, `subjects`,
        `nodes`, the last two complete.
    about : str
        The data set in a few words.
    scan : MatrixScan
        What was measured in each matrix; `rmixup.report.health` draws it.
    """

    findings: list[Finding]
    about: str
    scan: MatrixScan = field(repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether no finding is an error."""
        return not self.count("error")

    def count(self, severity: Severity) -> int:
        """How many findings are of this severity."""
        return sum(finding.severity == severity for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """`ok` and `findings`, of plain values."""
        return {"ok": self.ok, "findings": [finding._asdict() for finding in self.findings]}

    def to_json(self, indent: int | None = None) -> str:
        """The same as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)

    @property
    def verdict(self) -> str:
        """The findings in one line."""
        counts = [counted(n, {"info": "note"}.get(s, s)) for s in SEVERITIES if (n := self.count(s))]
        return f"{self.about}: {', '.join(counts) if counts else 'nothing found'}"

    @property
    def advice(self) -> str:
        """What to do next, in one line."""
        if not self.ok:
            first = next(finding for finding in self.findings if finding.severity == "error")
            return f"Not ready. Begin with {first.code}: {first.remedy}"
        if self.count("warning"):
            return "Usable. Read the warnings, and decide on each before comparing methods."
        return "Ready: split it, train on it."

    def __str__(self) -> str:
        return "\n".join([self.verdict, *(_lines(finding) for finding in self.findings), self.advice])

    def __repr__(self) -> str:
        return f"Report({self.verdict})"

    def _repr_html_(self) -> str:
        cells = [
            (f.severity, f.code, f.message + (f" ({whom})" if (whom := concerned(f)) else ""), f.remedy)
            for f in self.findings
        ]
        rows = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in cells)
        head = "<tr><th>severity</th><th>code</th><th>finding</th><th>remedy</th></tr>"
        return f"<table><caption>{escape(self.verdict)}</caption>{head}{rows}</table><p>{escape(self.advice)}</p>"


def check(ds: Networks) -> Report:
    """Examine a data set: its numbers, its people, its labels.

    Parameters
    ----------
    ds : Networks
        Matrices, series, or both; with series only, their Pearson correlations are judged.

    Returns
    -------
    Report
        Memory is bounded: matrices and series are read once (in blocks, from a memory map as well).

    >>> import numpy as np
    >>> report = check(Networks(np.stack([np.eye(3)] * 2), ["a", "a"], subjects=["s1", "s2"]))
    >>> report.ok, [finding.code for finding in report.findings]
    (False, ['constant-node', 'identical-matrices', 'single-class'])
    """
    if not len(ds):
        raise DataError("expected one network or more to check, got none")
    series = scan_series(ds)
    patient = Patient(ds, series, scan_matrices(ds, series))
    findings = sorted(_examine(patient), key=lambda finding: SEVERITIES.index(finding.severity))
    return Report(findings, f"{counted(len(ds), 'network')} of {counted(ds.n_nodes, 'node')}", patient.matrices)


def _examine(patient: Patient) -> Iterator[Finding]:
    for code, (severity, look) in FINDINGS.items():
        if told := look(patient):
            yield Finding(code, severity, told.message, told.remedy, list(told.subjects), list(told.nodes))


def concerned(finding: Finding) -> str:
    """Whom and which nodes a finding concerns, the first few of them.

    >>> concerned(Finding("rare-class", "warning", "", "", ["s1", "s2"], []))
    's1, s2'
    """
    parts = [shown(finding.subjects, _NAMES_SHOWN)] if finding.subjects else []
    if finding.nodes:
        parts.append(f"nodes {shown(finding.nodes, _NAMES_SHOWN)}")
    return "; ".join(parts)


def _lines(finding: Finding) -> str:
    whom = concerned(finding)
    first = f"{finding.severity:<7}  {finding.code}: {finding.message}"
    return "\n".join([first, *([f"{'':<9}who: {whom}"] if whom else []), f"{'':<9}do:  {finding.remedy}"])


__all__ = ["FINDINGS", "Finding", "Report", "check", "concerned"]
