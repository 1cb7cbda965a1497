"""How a study stands, told from its folder in a moment: no data is loaded, no result is read but a few timings."""

from __future__ import annotations

import json
import time
from typing import Any

from rmixup.study.project import Study

# So many timings give the time left well enough.
_TIMED = 50


def status(study: Study) -> dict[str, Any]:
    """Counts of cells by state, the failures with their reasons, who works on what, seconds left if known."""
    wanted = {cell.key: cell for cell in study.cells}
    store = study.store
    done = store.done() & wanted.keys()
    failures = {key: failure for key, failure in store.failures().items() if key in wanted}
    claims = store.claims.live()
    running = {key for claim in claims for key in claim.cells} & wanted.keys() - done - failures.keys()
    missing = len(wanted) - len(done) - len(failures)
    seconds = _mean_seconds(study, sorted(done)[:_TIMED])
    return {
        "name": study.spec.name,
        "folder": str(study.folder),
        "total": len(wanted),
        "done": len(done),
        "failed": len(failures),
        "running": len(running),
        "missing": missing,
        "quarantined": len(list(store.quarantine.iterdir())) if store.quarantine.is_dir() else 0,
        "seconds_left": seconds * missing / max(1, len(claims)) if seconds is not None else None,
        "failures": [
            {"key": key, "cell": str(wanted[key]), "reason": failure.reason, "message": failure.message}
            for key, failure in failures.items()
        ],
        "claims": [
            {"host": claim.owner.host.split()[0], "pid": claim.owner.pid, "seconds": time.time() - claim.since}
            for claim in claims
        ],
        "allowed": [dict(change) for change in study.allowed],
    }


def _mean_seconds(study: Study, keys: list[str]) -> float | None:
    """Mean seconds a cell took; None where nothing readable tells."""
    found = []
    for key in keys:
        try:
            found.append(json.loads((study.store.cells / key / "timings.json").read_bytes())["seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return sum(found) / len(found) if found else None


def show(found: dict[str, Any]) -> str:
    """What `status` found, for people."""
    counts = ", ".join(f"{found[name]} {name}" for name in ("done", "running", "failed", "missing", "quarantined"))
    left = found["seconds_left"]
    time_left = [] if left is None or not found["missing"] else [f"about {_duration(left)} left"]
    failures = [f"failed: {entry['cell']}: {entry['reason']}: {entry['message']}" for entry in found["failures"]]
    claims = [f"working: {c['host']}, process {c['pid']}, for {_duration(c['seconds'])}" for c in found["claims"]]
    changes = [f"changed on request: {', '.join(change)}" for change in found["allowed"]]
    return "\n".join([f"{found['name']}: {found['total']} cells: {counts}", *time_left, *claims, *failures, *changes])


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{seconds:.0f} s" if minutes < 2 else f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
