"""A short run of every target, and that the oracle sees what it is there to see."""

import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest
import targets
from campaign import CANARY, campaign, inputs, replay
from run import shares
from targets import TARGETS, Target

from rmixup.errors import FormatError

INPUTS = 12


@pytest.mark.parametrize("name", TARGETS)
def test_a_few_inputs(name: str) -> None:
    """Valid files first: they are accepted; then changed ones."""
    tally = campaign(name, INPUTS, seed=1, workers=1)
    assert (tally.inputs, tally.findings) == (INPUTS, []), [(one.what, one.where) for one in tally.findings]
    assert tally.accepted > 0


def test_inputs_follow_from_the_seed_and_their_number_alone() -> None:
    seeds = [b"1,2\n3,4\n", b"a,b\n5,6\n"]
    one, two = (
        list(inputs("text, one person", seeds, 3, range(40))),
        list(inputs("text, one person", seeds, 3, range(40))),
    )
    assert one == two
    assert list(inputs("text, one person", seeds, 3, [17, 5])) == [one[17], one[5]]
    assert one != list(inputs("text, one person", seeds, 4, range(40)))
    assert len(set(one)) > 30


def test_a_million_is_a_million() -> None:
    assert 1_000_000 <= sum(shares(1_000_000, list(TARGETS)).values()) < 1_000_000 + len(TARGETS)


def _sabotage(folder: Path) -> object:
    content = (folder / "x").read_bytes()
    outside = folder.parent / "empty" / "left-behind"
    acts = {
        b"fine": lambda: None,
        b"refused": partial(_refuse, FormatError("no")),
        b"raises": lambda: {}["key"],
        b"two lines": partial(_refuse, _TwoLinesError()),
        b"waits": partial(time.sleep, 5),
        b"dies": partial(os.kill, os.getpid(), signal.SIGSEGV),
        b"writes": lambda: outside.write_text("x"),
        b"writes inside": lambda: (folder / "y").write_text("x"),
        b"removes": (folder / "x").unlink,
        b"runs": partial(os.system, "true"),
        b"peeks": (folder.parent / CANARY / "secret").read_bytes,
        b"unpickles": lambda: __import__("pickle").loads(b"cbuiltins\nlen\n."),
        b"asks for much": lambda: bytearray(8 << 30),
        b"takes much": lambda: bytearray(b"x") * (512 << 20),
    }
    return acts[content]()


def _refuse(why: FormatError) -> None:
    raise why


class _TwoLinesError(FormatError):
    def __str__(self) -> str:
        return "one\ntwo"


@pytest.mark.parametrize(
    ("content", "kind", "what"),
    [
        (b"fine", "", ""),
        (b"refused", "", ""),
        (b"raises", "escaped", "KeyError"),
        (b"two lines", "escaped", "not one line"),
        (b"waits", "hang", "took"),
        (b"dies", "crash", "exit code -11"),
        (b"writes", "write", "open"),
        (b"writes inside", "write", "open"),
        (b"removes", "write", "os.remove"),
        (b"runs", "write", "os.system"),
        (b"peeks", "write", "open"),
        (b"unpickles", "write", "pickle.find_class"),
        (b"asks for much", "escaped", "MemoryError"),
        (b"takes much", "memory", "MiB"),
    ],
)
def test_the_oracle_sees(monkeypatch: pytest.MonkeyPatch, content: bytes, kind: str, what: str) -> None:
    monkeypatch.setattr("campaign._TRIES", 1)
    monkeypatch.setitem(targets.TARGETS, "sabotage", Target("x", lambda _: [b"fine"], _sabotage, lambda r, s: s[0], 1))
    tally = replay("sabotage", [content, b"fine"])
    assert tally.inputs == 2
    assert [one.kind for one in tally.findings] == ([kind] if kind else [])
    assert all(what in one.what and one.content == content for one in tally.findings)
    assert tally.accepted >= 1
