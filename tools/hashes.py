"""Write `constraints-hashed.txt`: every package that CI installs, with the hash of the one file it is installed from.

    python tools/hashes.py

It asks pip what it would install here under `constraints.txt`, installing nothing. Run it, with the Python and on the
system that CI has, whenever `constraints.txt` changes; the first line of the file says which these were. torch is left
out: it comes in builds of one version for CPUs and for each kind of GPU, and which of them a machine offers differs,
so it is installed first, by its version alone.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "constraints-hashed.txt"
# What builds the package itself: with hashes there is no build in an environment of its own.
BUILD = ("hatchling", "editables")
BY_VERSION = frozenset({"torch", "rmixup"})


def here() -> str:
    """The Python and the system that files are chosen for."""
    version = ".".join(map(str, sys.version_info[:2]))
    return f"{platform.python_implementation()} {version} {platform.system()} {platform.machine()}"


def resolved() -> list[dict[str, Any]]:
    """What pip would install into an empty environment."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
        what = ["--constraint", str(ROOT / "constraints.txt"), f"{ROOT}[dev]", *BUILD]
        subprocess.run([*pip, "--report", str(report), *what], check=True, stderr=subprocess.DEVNULL)
        found: list[dict[str, Any]] = json.loads(report.read_text())["install"]
    return found


def line(package: dict[str, Any]) -> str:
    """One requirement.

    >>> archive = {"archive_info": {"hashes": {"sha256": "0"}}}
    >>> line({"metadata": {"name": "A", "version": "1"}, "download_info": archive})
    'A==1 --hash=sha256:0'
    """
    about, archive = package["metadata"], package["download_info"]["archive_info"]
    return f"{about['name']}=={about['version']} --hash=sha256:{archive['hashes']['sha256']}"


def main() -> int:
    """Write the file; say what was not pinned by `constraints.txt`."""
    packages = [package for package in resolved() if package["metadata"]["name"] not in BY_VERSION]
    lines = sorted(map(line, packages), key=str.lower)
    told = (
        f"# {here()}\n# Written by tools/hashes.py. torch is not here: it is installed first, by its version alone.\n"
    )
    OUT.write_text(told + "\n".join(lines) + "\n", encoding="utf-8")
    pinned = {text.partition("==")[0].lower() for text in (ROOT / "constraints.txt").read_text().splitlines()}
    loose = [text.partition("==")[0] for text in lines if text.partition("==")[0].lower() not in pinned]
    told = f"; not in constraints.txt: {', '.join(loose)}" if loose else ""
    sys.stdout.write(f"{OUT.name}: {len(lines)} packages{told}\n")
    return int(bool(loose))


if __name__ == "__main__":
    sys.exit(main())
