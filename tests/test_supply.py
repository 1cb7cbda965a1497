"""What is installed: pinned once, hashed where CI installs it, listed as CycloneDX asks, and looked up or not."""

import importlib.util
import json
import re
import tomllib
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


audit, hashes = tool("audit"), tool("hashes")


def pinned(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    found = [re.match(r"([\w.-]+)==(\S+)", line) for line in lines if line and not line.startswith("#")]
    assert None not in found
    return {audit.canonical(match[1]): match[2] for match in found if match is not None}


def test_what_is_hashed_is_what_is_pinned() -> None:
    """A package that was added or raised in one of the files only: run tools/hashes.py."""
    all_of_them, hashed = pinned("constraints.txt"), pinned("constraints-hashed.txt")
    assert {name: all_of_them.get(name) for name in hashed} == hashed
    assert "torch" not in hashed
    assert len(audit.pinned_hashes()) == len(hashed) > 100


def test_every_package_that_the_project_asks_for_is_hashed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *(text for extra in project["optional-dependencies"].values() for text in extra)]
    names = {audit.canonical(re.split(r"[\[<>=~! ]", text, maxsplit=1)[0]) for text in asked}
    assert names > {"numpy", "pytest", "h5py"}
    assert names - set(pinned("constraints-hashed.txt")) == {"torch", "rmixup"}


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    made: dict[str, Any] = audit.bill(distributions(), audit.pinned_hashes(), datetime(2026, 1, 1, tzinfo=UTC))
    return made


def test_the_list_has_what_the_format_asks_for(told: dict[str, Any]) -> None:
    assert audit.problems(told) == []
    again = audit.bill(distributions(), audit.pinned_hashes(), datetime(2026, 1, 1, tzinfo=UTC))
    assert json.dumps(again) == json.dumps(told)
    numpy = next(one for one in told["components"] if one["name"] == "numpy")
    assert numpy["purl"] == f"pkg:pypi/numpy@{numpy['version']}"
    assert re.fullmatch("[0-9a-f]{64}", numpy["hashes"][0]["content"])
    ours = next(one for one in told["dependencies"] if one["ref"] == told["metadata"]["component"]["bom-ref"])
    assert numpy["bom-ref"] in ours["dependsOn"]
    assert not [ref for ref in ours["dependsOn"] if "pytest" in ref]


@pytest.mark.parametrize(
    ("path", "value", "lacks"),
    [
        (("specVersion",), "0.9", "specVersion"),
        (("serialNumber",), "urn:uuid:1", "serialNumber"),
        (("version",), True, "version"),
        (("components", 0, "name"), "", "components of a known type with a name"),
        (("components", 1, "type"), "thing", "components of a known type with a name"),
        (("components", 0, "bom-ref"), "other", "dependencies that are listed"),
        (("dependencies", 0, "ref"), "nobody", "dependencies that are listed"),
    ],
)
def test_a_list_that_is_none_is_told(told: dict[str, Any], path: tuple[Any, ...], value: object, lacks: str) -> None:
    changed = json.loads(json.dumps(told))
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    assert lacks in audit.problems(changed)


def test_nobody_to_ask_is_no_clean_bill(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(audit, "write_bill", lambda: 3)
    monkeypatch.setattr(audit, "_environment", lambda folder: None)
    assert audit.main([]) == 2
    assert "could NOT be looked up" in capsys.readouterr().err
    assert audit.judged("", "requests.exceptions.ConnectionError: cut") == (
        2,
        "requests.exceptions.ConnectionError: cut",
    )
    nobody = {"dependencies": [{"name": "a", "skip_reason": "not found"}]}
    assert audit.judged(json.dumps(nobody), "")[0] == 2
    known = {"name": "b", "version": "1", "vulns": []}
    code, said = audit.judged(json.dumps({"dependencies": [*nobody["dependencies"], known]}), "")
    assert (code, said.splitlines()[1]) == (0, "NOT looked up, nobody knows these versions: a")
    flawed = {**known, "vulns": [{"id": "X-1", "fix_versions": []}]}
    assert audit.judged(json.dumps({"dependencies": [known, flawed]}), "") == (1, "b 1: X-1 (mended in no version)")


def test_one_line_a_package() -> None:
    archive = {"archive_info": {"hashes": {"sha256": "ab"}}}
    assert hashes.line({"metadata": {"name": "A", "version": "1"}, "download_info": archive}) == "A==1 --hash=sha256:ab"
    assert (ROOT / "constraints-hashed.txt").read_text(encoding="utf-8").startswith("# CPython 3.11 Linux x86_64\n")
