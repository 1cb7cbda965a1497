"""What people mistype: every command ends with exit code 2 and one line that says what to do, and writes nothing."""

from pathlib import Path

import pytest
from commands import call, is_refusal, write_spec
from tally import Tally

from rmixup import simulate
from rmixup.cli import COMMANDS


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set, a model, a study, and things that are none of them."""
    folder = tmp_path_factory.mktemp("place")
    simulate(n_subjects=40, n_nodes=4, n_frames=20, seed=1).save(folder / "data")
    assert call("train", folder / "data", "--backbone", "linear", "--out", folder / "model")[0] == 0
    spec = write_spec(folder / "s.toml", folder / "data")
    assert call("study", "run", spec, "--out", folder / "study", "--processes", "0")[0] == 0
    (folder / "empty").mkdir()
    (folder / "file").write_text("nothing in particular\n")
    (folder / "binary").write_bytes(bytes(range(256)))
    (folder / "broken.toml").write_text("[data\n")
    (folder / "latin.toml").write_bytes(b"name = '\xe9'\n")
    write_spec(folder / "typo.toml", folder / "data", methods='["rmixupp"]')
    write_spec(folder / "nowhere.toml", folder / "nowhere")
    write_spec(folder / "negative.toml", folder / "data", repeats=-1)
    write_spec(folder / "unknown.toml", folder / "data", more="colour = 'red'\n")
    return folder


LINES = """
no-such-command
--no-such-option
check
check nowhere
check empty
check file
check binary
check model
check study
check s.toml
check data --target nowhere
check data --no-such-option
import
import nowhere out
import empty out
import file out
import binary out
import data out
import data
import file out --layout nowhere
import file out --frames one
import file out --frames -3
import file out --labels nowhere
train
train nowhere
train empty
train file
train model
train data --backbone nowhere
train data --augment nowhere
train data --regularize nowhere
train data --regularize shrink=two
train data --regularize shrink=7
train data --kind nowhere
train data --epochs 0
train data --epochs many
train data --cv 1
train data --cv 4000
train data --learning-rate nan --backbone mlp
train data --learning-rate -1 --backbone mlp
train data --device tpu --backbone mlp
train data --target nowhere
train data --groups nowhere
train data --task nowhere --target class
train data --backbone linear --out model
train data --backbone linear --out file
train data --backbone linear --out data
predict
predict model
predict nowhere data
predict data data
predict file data
predict study data
predict model nowhere
predict model file
predict model model
predict model data --out s.toml
predict model data --out empty
study
study nowhere
study new
study new s.toml
study run
study run nowhere.toml
study run nowhere --out out
study run broken.toml --out out
study run latin.toml --out out
study run typo.toml --out out
study run negative.toml --out out
study run unknown.toml --out out
study run binary --out out
study run data --out out
study run s.toml
study run s.toml --out file
study run s.toml --out out --processes -1
study run s.toml --out out --threads 0
study run s.toml --out out --device tpu --processes 0
study run s.toml --out out --work no.such.module
study run s.toml --out out --dask nowhere.json
study run s.toml --out study --stack 3
study resume nowhere
study resume data
study resume empty
study resume file
study status nowhere
study status model
study verify data
study export empty
study export study --format docx
study export study --out file
study pack s.toml
study take study nowhere
study take study binary
study take study file
report
report nowhere
report data
report model
report empty
report study --out file
paper
paper nowhere --data data
paper overall
paper overall --data nowhere
paper overall --data file
paper overall --data data --preset nowhere
paper overall --data data --repeats 0
bench nowhere
fetch
fetch nowhere
fetch abide file
demo --processes 0
demo --out file
demo --out no --no-such-option
""".strip().splitlines()
# Typed alone, a group of commands shows its help.
HELP = {"study", "fetch"}
THINGS = {"data", "model", "study", "empty", "file", "binary", "s.toml"}


def _arguments(line: str, place: Path) -> list[str]:
    """The words of a line; those behind the command's name that name things become paths."""
    words = line.split()
    names = {path.name for path in place.iterdir()} | {"nowhere", "nowhere.toml", "nowhere.json", "out", "no"}
    first = 2 if words[0] in {"study", "fetch", "paper", "bench"} else 1
    options = {
        "--target",
        "--layout",
        "--backbone",
        "--augment",
        "--regularize",
        "--kind",
        "--groups",
        "--task",
        "--preset",
    }
    return [
        str(place / word) if k >= first and word in names and words[k - 1] not in options else word
        for k, word in enumerate(words)
    ]


@pytest.mark.fault(30)
def test_mistakes_are_told_in_one_line(place: Path, tally: Tally) -> None:
    before = {str(path): path.read_bytes() for path in place.rglob("*") if path.is_file()}
    for line in LINES:
        with tally.attempt(line):
            code, out, said = call(*_arguments(line, place))
            if line in HELP:
                assert "Usage" in out + said or "usage" in out + said
                continue
            is_refusal(code, said)
            assert len(said) > 40, said
            now = {str(path): path.read_bytes() for path in place.rglob("*") if path.is_file()}
            assert now == before, f"changed: {set(now) ^ set(before)}"
    covered = {line.split()[0] for line in LINES}
    assert covered >= set(COMMANDS) - {"explain"}
