"""What is quoted from a file cannot steer the terminal, break the line, or be impossible to print."""

from pathlib import Path

import pytest

from rmixup.cli import run
from rmixup.errors import FormatError, StoreError, printable


@pytest.mark.parametrize("cell", ["\x1b[2J", "\u202egnp.exe", "a\u2028b", "\x07", "\u200b"])
def test_a_cell_cannot_steer_a_terminal(cell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("s1", "s2"):
        (tmp_path / f"{name}.csv").write_text(f"1,2\n3,{cell}\n4,5\n", encoding="utf-8")
    assert run(["check", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.endswith("\n")
    assert said[:-1].isprintable()
    assert "line 2, column 2: expected a number" in said


@pytest.mark.parametrize("kind", [FormatError, StoreError])
def test_every_message_is_one_line_that_can_be_printed(kind: type[Exception]) -> None:
    assert str(kind("fine: é, 脳, λ")) == "fine: é, 脳, λ"
    assert str(kind("one\r\n  two\tthree\x00\ud800")) == "one two\\tthree\\x00\\ud800"
    assert printable("") == ""
