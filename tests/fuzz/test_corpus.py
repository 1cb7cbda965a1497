"""Every input that once found something is read or refused with one line from then on."""

from pathlib import Path

import pytest
from campaign import replay
from run import file_name
from targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"


def test_every_folder_of_the_corpus_is_of_a_target() -> None:
    assert {path.name for path in CORPUS.iterdir()} <= set(map(file_name, TARGETS))


@pytest.mark.parametrize("name", [name for name in TARGETS if (CORPUS / file_name(name)).is_dir()])
def test_past_findings(name: str) -> None:
    found = sorted((CORPUS / file_name(name)).iterdir())
    tally = replay(name, [path.read_bytes() for path in found])
    assert tally.inputs == len(found) > 0
    assert not tally.findings, [(one.kind, one.what, one.where) for one in tally.findings]
