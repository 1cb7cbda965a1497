"""`make audit`: known vulnerabilities of what is installed, and the list of it as `dist/sbom.json` (CycloneDX 1.6).

    python tools/audit.py [--sbom-only]

The list is made from what the environment itself says, and checked against what the format asks for. Vulnerabilities
are looked up by pip-audit, in an environment of its own. Exit codes: 0 = nothing known, 1 = something is, 2 = nobody
could be asked (no network): then nothing is known either way, and that is said.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import Distribution, distributions, metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "dist" / "sbom.json"
SPEC = "1.6"
OK, FOUND, UNKNOWN = 0, 1, 2
_SERIAL = re.compile(r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TYPES = {"library", "application", "framework"}


# ------------------------------------------------------------------------------------------------ the list


def canonical(name: str) -> str:
    """A package's name as packages are compared.

    >>> canonical("Pre_Commit.x")
    'pre-commit-x'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def bill(found: Iterable[Distribution], hashes: dict[str, str], now: datetime) -> dict[str, Any]:
    """The list of packages, what each needs, its licence, and the hash it is installed from where one is pinned."""
    packages = {canonical(one.metadata["Name"]): one for one in found}
    whole = packages.pop("rmixup")
    content = sorted(f"{name}=={one.version}" for name, one in packages.items())
    refs = {name: f"pkg:pypi/{name}@{one.version}" for name, one in {**packages, "rmixup": whole}.items()}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": SPEC,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, ' '.join(content))}",
        "version": 1,
        "metadata": {
            "timestamp": now.isoformat(timespec="seconds"),
            "tools": {"components": [{"type": "application", "name": "tools/audit.py", "version": whole.version}]},
            "component": _component(whole, refs["rmixup"], {}),
            "properties": [{"name": "python", "value": platform.python_version()}],
        },
        "components": [_component(one, refs[name], hashes) for name, one in sorted(packages.items())],
        "dependencies": [
            {"ref": refs[name], "dependsOn": sorted({refs[other] for other in _needs(one) if other in refs})}
            for name, one in sorted({**packages, "rmixup": whole}.items())
        ],
    }


def _component(one: Distribution, ref: str, hashes: dict[str, str]) -> dict[str, Any]:
    name = canonical(one.metadata["Name"])
    told: dict[str, Any] = {"type": "library", "bom-ref": ref, "name": name, "version": one.version, "purl": ref}
    licence = _licence(one)
    if licence:
        told["licenses"] = [licence]
    if name in hashes:
        told["hashes"] = [{"alg": "SHA-256", "content": hashes[name]}]
    return told


def _licence(one: Distribution) -> dict[str, Any] | None:
    """What a package says of its licence: an expression, else a name, else its classifiers."""
    about: Any = one.metadata
    if about.get("License-Expression"):
        return {"expression": about["License-Expression"]}
    classes = [text for text in about.get_all("Classifier") or [] if text.startswith("License ::")]
    short = (about.get("License") or "").strip().split("\n")[0][:100]
    name = short or "; ".join(text.rsplit(" :: ", 1)[-1] for text in classes)
    return {"license": {"name": name}} if name else None


def _needs(one: Distribution) -> set[str]:
    """The packages that one asks for, extras apart."""
    texts = [text for text in one.requires or [] if "extra ==" not in text]
    return {canonical(match[0]) for text in texts if (match := re.match(r"[A-Za-z0-9._-]+", text))}


def pinned_hashes() -> dict[str, str]:
    """Package -> SHA-256 of the file that CI installs."""
    path = ROOT / "constraints-hashed.txt"
    lines = re.findall(r"^(\S+)==\S+ --hash=sha256:([0-9a-f]{64})$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {canonical(name): found for name, found in lines}


def problems(told: dict[str, Any]) -> list[str]:
    """What CycloneDX asks for and a list does not have."""
    parts = [told["metadata"]["component"], *told["components"]]
    refs = [part.get("bom-ref") for part in parts]
    checks = {
        "bomFormat": told.get("bomFormat") == "CycloneDX",
        "specVersion": told.get("specVersion") == SPEC,
        "serialNumber": bool(_SERIAL.fullmatch(str(told.get("serialNumber")))),
        "version": type(told.get("version")) is int and told["version"] >= 1,
        "timestamp": datetime.fromisoformat(told["metadata"]["timestamp"]).tzinfo is not None,
        "components of a known type with a name": all(
            part.get("type") in _TYPES and part.get("name") for part in parts
        ),
        "versions": all(part.get("version") for part in parts),
        "one bom-ref each": len(set(refs)) == len(refs) and None not in refs,
        "dependencies that are listed": all(
            ref in refs for one in told["dependencies"] for ref in (one["ref"], *one["dependsOn"])
        ),
        "one dependency entry each": len({one["ref"] for one in told["dependencies"]}) == len(refs),
    }
    return [name for name, holds in checks.items() if not holds]


def write_bill() -> int:
    """Write the list; returns how many packages it has."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    now = datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
    told = bill(distributions(), pinned_hashes(), now)
    missing = problems(told)
    if missing:
        raise SystemExit(f"audit: the list is no CycloneDX {SPEC}: it lacks {'; '.join(missing)}")
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return len(told["components"])


# ------------------------------------------------------------------------------------------------ vulnerabilities


def look_up() -> tuple[int, str]:
    """Ask pip-audit about every installed version; (exit code, what it said)."""
    wanted = [f"{one.metadata['Name']}=={one.version.partition('+')[0]}" for one in distributions()]
    with tempfile.TemporaryDirectory() as folder:
        python = _environment(Path(folder))
        if python is None:
            return UNKNOWN, "pip-audit could not be installed"
        listed = Path(folder) / "installed.txt"
        listed.write_text(
            "\n".join(text for text in wanted if not text.startswith("rmixup==")) + "\n", encoding="utf-8"
        )
        command = [python, "-m", "pip_audit", "--requirement", str(listed), "--disable-pip", "--no-deps"]
        quiet = ["--progress-spinner", "off", "--format", "json"]
        done = subprocess.run([*command, *quiet], capture_output=True, text=True, check=False)
    return judged(done.stdout, done.stderr)


def _environment(folder: Path) -> str | None:
    """An environment with pip-audit in it."""
    python = str(folder / "venv" / "bin" / "python")
    pip = [python, "-m", "pip", "install", "-q", "--constraint", str(ROOT / "constraints.txt"), "pip-audit"]
    steps = ([sys.executable, "-m", "venv", str(folder / "venv")], pip)
    fine = all(subprocess.run(step, capture_output=True, check=False).returncode == 0 for step in steps)
    return python if fine else None


def judged(said: str, errors: str) -> tuple[int, str]:
    """What pip-audit's answer means: that it found something is not that it could not ask.

    >>> judged('{"dependencies": [{"name": "a", "version": "1", "vulns": []}]}', "")
    (0, '1 packages were looked up, none has a known vulnerability')
    >>> judged('{"dependencies": [{"name": "a", "version": "1", "vulns": [{"id": "X-1", "fix_versions": ["2"]}]}]}', "")
    (1, 'a 1: X-1 (mended in 2)')
    >>> judged("", "ConnectionError: no route to host")
    (2, 'ConnectionError: no route to host')
    """
    try:
        packages = json.loads(said)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return UNKNOWN, (errors.strip() or said.strip() or "no answer").splitlines()[-1][:300]
    asked = [one for one in packages if "skip_reason" not in one]
    skipped = sorted(one["name"] for one in packages if "skip_reason" in one)
    if not asked:
        return UNKNOWN, f"none of {len(packages)} packages could be looked up"
    found = [
        f"{one['name']} {one['version']}: {flaw['id']} (mended in {', '.join(flaw['fix_versions']) or 'no version'})"
        for one in asked
        for flaw in one["vulns"]
    ]
    told = found or [f"{len(asked)} packages were looked up, none has a known vulnerability"]
    left = [f"NOT looked up, nobody knows these versions: {', '.join(skipped)}"] if skipped else []
    return (FOUND if found else OK), "\n".join([*told, *left])


def main(arguments: list[str]) -> int:
    """Write the list, then look up vulnerabilities."""
    count = write_bill()
    sys.stdout.write(f"{OUT.relative_to(ROOT)}: {count} packages beside rmixup {metadata('rmixup')['Version']}\n")
    if "--sbom-only" in arguments:
        return OK
    code, said = look_up()
    if code == UNKNOWN:
        sys.stderr.write(f"audit: vulnerabilities could NOT be looked up, so none are ruled out: {said}\n")
    else:
        sys.stdout.write(f"{said}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
