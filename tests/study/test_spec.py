"""Specs: valid ones expand as declared, invalid ones say everything that is wrong, with lines and nearest names."""

import itertools
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmixup.errors import DataError, FormatError
from rmixup.study.cells import Cell, DataIdentity, expand, stacks
from rmixup.study.spec import Spec, check_names, parse_spec, read_spec, template

DATA = DataIdentity("ab" * 32, subjects=100, groups=4)
BASE = 'data.path = "x.npz"\ngrid.methods = ["none", "rmixup"]\n'

GOLDEN = [
    "b8b0ef8bed695d131b69222b",
    "f71eabc90dcda29d59dff338",
    "653c452198d71acda155de2a",
    "bc401b3613aed239328d15e6",
]


def keys_of(spec: Spec, data: DataIdentity = DATA) -> set[str]:
    return {cell.key for cell in expand(spec, data)}


def test_all_problems_are_told_at_once_each_with_line_and_nearest_name() -> None:
    text = """
[data]
path = "x.npz"
traget = "ASD"
[protocol]
# epochs = 3
epochs = "many"
learning_rat = 1
[split]
scheme = "kfolds"
sizes = [0.7, 0.1, 0.1]
[grids]
"""
    with pytest.raises(FormatError) as caught:
        parse_spec(text, "my.toml")
    message = str(caught.value)
    assert message.startswith("my.toml: 7 problems: ")
    for part in (
        "line 4: unknown key 'traget' in [data]; did you mean 'target'?",
        "line 7: protocol.epochs: input should be a valid integer",
        "got 'many'",
        "line 8: unknown key 'learning_rat' in [protocol]; did you mean 'learning_rate'?",
        "line 10: split.scheme: input should be 'holdout', 'kfold' or 'leave-group-out', got 'kfolds'",
        "line 12: unknown key 'grids'; did you mean 'grid'?",
        "line 1: key 'grid' is missing",
    ):
        assert part in message
    assert "add up to 1" in str(message)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = = 1", "expected TOML, but Invalid value (at line 1, column 5)"),
        ('grid.methods = ["none"]\n[data]\n', "expected `path` (a file or folder) or `preset`"),
        (BASE + "split.sizes = [0.5, 0.6, -0.1]", "add up to 1"),
        (BASE + "grid.train_sizes = [0.5, 1.5]", "line 3: grid.train_sizes.1: input should be less than or equal to 1"),
        (BASE + "protocol.zzz = 1", "there are: optimizer, learning_rate"),
        ('data.path = "x"\ngrid.methods = [{alpha = 1}]', "line 2: key 'name' is missing in [grid]"),
        (
            'data.path = "x"\ngrid.methods = [{name = "a", b = [[1]]}]',
            "spec: 1 problem: line 2: grid.methods.0.b: expected true, false, a finite number, a text, or a list",
        ),
        (
            'data.path = "x"\ngrid.methods = [{name = "a", alpha = nan}]',
            "spec: 1 problem: line 2: grid.methods.0.alpha",
        ),
        (
            BASE + "data.options.x = [1.0, inf]",
            "spec: 1 problem: line 3: data.options.x: expected true, false, a finite",
        ),
        (
            BASE + "protocol.learning_rate = inf",
            "line 3: protocol.learning_rate: input should be a finite number, got inf",
        ),
        (BASE + "split.sizes = [0.7, nan, 0.2]", "line 3: split.sizes.1: input should be a finite number, got nan"),
    ],
)
def test_a_wrong_spec_is_refused(text: str, said: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_spec(text)
    assert said in str(caught.value)


@given(
    st.text(max_size=200) | st.sampled_from([BASE + "[grid.x]", "[data]\n" * 2, "data = 3", "grid.methods.name = 1"])
)
def test_any_text_that_is_no_spec_is_a_format_error(text: str) -> None:
    refused = ""
    try:
        parse_spec(text)
    except FormatError as error:
        refused = str(error)
    assert refused.startswith("spec: ")


def test_a_spec_file_is_read_and_its_data_path_is_relative_to_it(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(BASE)
    assert read_spec(path).data.path == str(tmp_path / "x.npz")
    path.write_text('data.preset = "abide-100"\ngrid.methods = ["none"]')
    assert read_spec(path).data.path is None
    path.write_bytes(b"\xff")
    with pytest.raises(FormatError, match="UTF-8, got byte 0xff"):
        read_spec(path)


@pytest.mark.parametrize("quick", [False, True])
def test_the_template_is_valid_and_says_the_defaults(quick: bool) -> None:
    text = template("my.toml", quick)
    as_it_stands = parse_spec(text)
    uncommented = "\n".join(
        line[2:] if line.startswith("# ") and " = " in line and not line.startswith("# a ") else line
        for line in text.splitlines()
        if not line.startswith(("# nodes", "# frames", "# regularize", "# groups", "# lengths"))
    )
    said = parse_spec(uncommented)
    assert said.model_dump(exclude={"data": {"target"}}) == as_it_stands.model_dump(exclude={"data": {"target"}})
    assert as_it_stands.grid.baselines == ["linear", "tangent"]
    assert "my.toml" in text


def test_names_nobody_provides_are_refused_together() -> None:
    spec = parse_spec('data.path = "x"\n[grid]\nmethods = ["none", "rmixpu"]\nbackbones = ["transfromer"]')
    with pytest.raises(FormatError) as caught:
        check_names(spec, ["none", "rmixup"], ["transformer"])
    assert "method 'rmixpu'; did you mean 'rmixup'?" in str(caught.value)
    assert "backbone 'transfromer'; did you mean 'transformer'?" in str(caught.value)
    check_names(spec, ["none", "rmixpu"], ["transfromer"])


def test_a_grid_expands_to_every_combination_once_and_the_baselines_stand_beside() -> None:
    spec = parse_spec(
        BASE
        + 'grid.backbones = ["transformer", {name = "gcn", layers = 2}]\ngrid.train_sizes = [0.5, 1]\n'
        + "grid.lengths = [50, 100]\ngrid.seeds = [0, 1]\nsplit.repeats = 3"
    )
    cells = expand(spec, DATA)
    models = [cell for cell in cells if not cell.is_baseline]
    assert len(models) == 2 * 2 * 2 * 2 * 2 * 3
    assert len(cells) - len(models) == 2 * 2 * 2 * 3
    assert len({cell.key for cell in cells}) == len(cells)
    assert {cell.protocol for cell in cells if cell.is_baseline} == {()}
    without = parse_spec(BASE + "grid.baselines = []")
    assert not any(cell.is_baseline for cell in expand(without, DATA))


@pytest.mark.parametrize(("scheme", "folds"), [("holdout", 1), ("kfold", 5), ("leave-group-out", 4)])
def test_each_scheme_has_its_folds(scheme: str, folds: int) -> None:
    spec = parse_spec(BASE + f'split.scheme = "{scheme}"\nsplit.repeats = 2\ngrid.baselines = []')
    assert len(expand(spec, DATA)) == 2 * 2 * folds


def test_leaving_groups_out_needs_groups() -> None:
    spec = parse_spec(BASE + 'split.scheme = "leave-group-out"')
    with pytest.raises(DataError, match="has none: name their column"):
        expand(spec, replace(DATA, groups=0))


def test_order_place_and_number_of_repeats_change_no_key() -> None:
    text = 'data.path = "{}"\n[split]\nrepeats = {}\n[grid]\nmethods = [{}]\n'
    one = keys_of(parse_spec(text.format("a", 3, '"none", {name = "rmixup", alpha = 1.0, per = "batch"}')))
    other = keys_of(parse_spec(text.format("b/c", 4, '{name = "rmixup", per = "batch", alpha = 1}, {name = "none"}')))
    assert one < other


@pytest.mark.parametrize(
    "change",
    [
        "data.target = 'z'",
        "data.frames = 50",
        "data.regularize = 'floor=1e-6'",
        "data.kind = 'oas'",
        "split.seed = 1",
        "split.stratify = 'y'",
        "split.sizes = [0.6, 0.2, 0.2]",
        "grid.train_sizes = [0.5]",
        "grid.lengths = [50]",
    ],
)
def test_whatever_determines_results_changes_every_key(change: str) -> None:
    assert not keys_of(parse_spec(BASE + change)) & keys_of(parse_spec(BASE))


def test_other_data_changes_every_key_and_the_protocol_only_those_of_trained_models() -> None:
    spec = parse_spec(BASE)
    assert not keys_of(spec) & keys_of(spec, replace(DATA, sha256="cd" * 32))
    longer = expand(parse_spec(BASE + "protocol.epochs = 3"), DATA)
    kept = {cell.key for cell in longer} & keys_of(spec)
    assert kept == {cell.key for cell in longer if cell.is_baseline}


def test_the_keys_of_schema_1_never_change() -> None:
    """Golden: a key that changes would orphan every study people have."""
    cells = expand(parse_spec(BASE + "split.repeats = 1"), DATA)
    assert [cell.key for cell in cells] == GOLDEN


def test_a_cell_survives_json_and_says_what_it_is() -> None:
    cells = expand(parse_spec(BASE + "data.nodes = ['a', 'b']\ngrid.lengths = [50]\ngrid.train_sizes = [0.5]"), DATA)
    assert [Cell.from_json(cell.to_json()) for cell in cells] == cells
    assert str(cells[0]) == "none · transformer train_size=0.5 length=50 · split 0.0 · seed 0"


def test_stacks_follow_from_the_set_of_cells_alone() -> None:
    cells = expand(parse_spec(BASE + 'grid.backbones = ["transformer", "gcn"]'), DATA)
    expected = stacks(cells, 7)
    shuffled = random.Random(0).sample(cells, len(cells))
    assert stacks(shuffled, 7) == expected
    assert sorted(cell.key for stack in expected for cell in stack.cells) == sorted(cell.key for cell in cells)
    assert all(len({cell.family for cell in stack.cells}) == 1 and len(stack.cells) <= 7 for stack in expected)
    assert len({stack.key for stack in expected}) == len(expected)
    assert all(a.cells[0].backbone == b.backbone for a in expected for b in itertools.islice(a.cells, 1, None))


@pytest.mark.parametrize("text", ["a = " + "[" * 5000, "a = " + "9" * 5000, "a = {b = [", "a = 1\x00"])
def test_toml_that_is_none_is_told(text: str) -> None:
    with pytest.raises(FormatError, match="spec: expected TOML, but"):
        parse_spec(text)


def test_a_study_of_more_cells_than_anybody_waits_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'data.path = "x"\ngrid.methods = ["none", "rmixup"]\ngrid.lengths = [9, 12]\nsplit.repeats = {}'
    data = DataIdentity("0", subjects=9)
    with pytest.raises(DataError, match=r"asks for 36893488147419103232 cells, a study has at most 1000000"):
        expand(parse_spec(text.format(2**62)), data)
    monkeypatch.setattr("rmixup.study.cells.MAX_CELLS", 24)
    assert len(expand(parse_spec(text.format(3)), data)) == 24
    with pytest.raises(DataError, match="asks for 32 cells"):
        expand(parse_spec(text.format(4)), data)
