"""`rmixup import`: what it says, and what it refuses without leaving anything behind."""

import json
import stat
import time
import zipfile

import numpy as np
import pytest

import rmixup
from rmixup.cli import run
from rmixup.data import readers
from rmixup.data.readers import expression


@pytest.fixture
def source(tmp_path):
    """Three people in text files with a table, as tab-separated as can be."""
    folder = tmp_path / "source"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in ("s1", "s2", "s3"):
        np.savetxt(folder / f"{name}.tsv", rng.normal(size=(12, 3)), delimiter="\t", header="a\tb\tc", comments="")
    (folder / "participants.tsv").write_text("participant_id\tdx\tage\ns1\tp\t9\ns2\tc\t10\ns3\tp\t11\n")
    return folder


@pytest.fixture
def refused(tmp_path, capsys):
    """Run an import that must fail; return its one line."""

    def importing(source, *options):
        before = sorted(path.name for path in tmp_path.iterdir())
        assert run(["import", str(source), str(tmp_path / "out"), *options]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("rmixup: error: ")
        assert said.err.count("\n") == 1
        assert sorted(path.name for path in tmp_path.iterdir()) == before, "something was left behind"
        return said.err

    return importing


def test_it_says_what_it_wrote_and_what_to_do_next(source, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(["import", str(source), str(out), "--target", "dx", "--kind", "correlation"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        f"Wrote {out}: Networks(3 networks of 3 nodes, classification: c 1, p 2).",
        f"Next: rmixup check {out}",
    ]
    assert said.err == ""
    assert rmixup.load(out).matrices.shape == (3, 3, 3)


def test_json_is_one_object(source, tmp_path, capsys):
    options = ["--target", "dx", "--drop-nodes", "b", "--drop-subjects", "s2", "--json"]
    assert run(["import", str(source), str(tmp_path / "out"), *options]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["networks"], said["nodes"], said["matrices"], said["series"]) == (2, 2, False, True)
    assert (said["target"], said["task"], said["classes"]) == ("dx", "classification", {"p": 2})
    assert [step["step"] for step in said["steps"]] == ["read", "choose", "with_target", "drop_nodes"]


def test_quiet_says_nothing(source, tmp_path, capsys):
    assert run(["import", str(source), str(tmp_path / "out"), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_several_targets(source, tmp_path, capsys):
    assert run(["import", str(source), str(tmp_path / "out"), "--target", "age", "--target", "age2"]) == 2
    assert "no column is named 'age2'" in capsys.readouterr().err


def test_a_bar_for_people_who_wait(source, tmp_path, capsys, monkeypatch):
    read = readers.import_folder

    def slowly(*arguments, **options):
        ds = read(*arguments, **options)
        time.sleep(0.3)
        return ds

    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("rmixup.cli.bars._PATIENCE_S", 0.1)
    monkeypatch.setattr(readers, "import_folder", slowly)
    assert run(["import", str(source), str(tmp_path / "out")]) == 0
    assert "importing" in capsys.readouterr().err


def test_help_shows_examples_and_every_option(capsys):
    assert run(["import", "--help"]) == 0
    said = capsys.readouterr().out
    assert "rmixup import connectomes/ OUT" in said
    for name in ("--drop-subjects", "--regularize", "--from-fisher-z", "--min-detect"):
        assert name in said


# ---- accepted


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\t", ","),
        lambda text: "\ufeff" + text.replace("\t", ",").replace("\n", "\r\n"),
    ],
    ids=["byte-order mark", "Windows line ends", "commas in a .tsv", "all of them"],
)
def test_what_is_unambiguous_is_accepted(source, tmp_path, capsys, change):
    assert run(["import", str(source), str(tmp_path / "plain"), "--target", "dx"]) == 0
    for file in source.iterdir():
        file.write_bytes(change(file.read_text()).encode())
    assert run(["import", str(source), str(tmp_path / "changed"), "--target", "dx"]) == 0
    assert rmixup.load(tmp_path / "plain").content_hash() == rmixup.load(tmp_path / "changed").content_hash()


# ---- refused


def test_an_empty_file(source, refused):
    (source / "s2.tsv").write_bytes(b"")
    assert "s2.tsv: the file is empty; copy or export it again" in refused(source)


def test_a_header_only(source, refused):
    (source / "s2.tsv").write_text("a\tb\tc\n")
    assert "s2.tsv: expected rows of numbers below the header, found the header only" in refused(source)
    (source / "participants.tsv").write_text("participant_id\tdx\n")
    assert "participants.tsv: expected one row a subject below the header" in refused(source)


def test_ragged_rows(source, refused):
    with (source / "s3.tsv").open("a") as file:
        file.write("1\t2\n")
    assert "s3.tsv: line 14 has 2 values, expected 3 as in the first row; the file is cut off" in refused(source)


def test_decimal_commas(source, refused):
    file = source / "s2.tsv"
    file.write_text(file.read_text().split("\n", 1)[1].replace(".", ","))
    assert "s2.tsv: the first line has decimal commas" in refused(source)


def test_text_in_a_number_column(source, refused):
    file = source / "s2.tsv"
    lines = file.read_text().splitlines()
    lines[4] = "0.1\tabc\t0.3"
    file.write_text("\n".join(lines))
    assert "s2.tsv: line 5, column 2: expected a number, found 'abc'" in refused(source)


def test_text_in_a_number_column_of_the_table(source, refused):
    table = source / "participants.tsv"
    table.write_text(table.read_text().replace("10", "ten"))
    said = refused(source, "--target", "age")
    assert "participants.tsv: line 3, column 'age': expected a number as in the other rows, found 'ten'" in said
    assert "--drop-unlabelled" in said


def test_two_atlases_mixed(source, refused):
    np.savetxt(source / "s2.tsv", np.random.default_rng(0).normal(size=(12, 5)), delimiter="\t")
    said = refused(source)
    assert "s2.tsv: a series of 12×5 numbers (5 nodes) for subject s2, expected 3 nodes" in said
    assert "--atlas" in said or "--transpose" in said


def test_labels_with_other_ids(source, refused):
    (source / "participants.tsv").write_text("participant_id\tdx\nx1\tp\nx2\tc\n")
    said = refused(source, "--target", "dx")
    assert "no id in column 'participant_id' matches a subject; the table has x1, x2, the data have s1, s2, s3" in said
    assert "--id-column" in said


def test_a_nan_label(source, refused):
    table = source / "participants.tsv"
    table.write_text(table.read_text().replace("s2\tc", "s2\tNaN"))
    said = refused(source, "--target", "dx")
    assert "participants.tsv, column 'dx': 1 subjects have no label (s2)" in said
    assert "--drop-unlabelled" in said


def stack(folder, **more):
    path = folder / "stack.npz"
    np.savez(path, **({"matrices": np.stack([np.eye(40)] * 5), "subjects": np.array(list("abcde"))} | more))
    return path


def test_a_truncated_npz(tmp_path, refused):
    path = stack(tmp_path)
    path.write_bytes(path.read_bytes()[:5000])
    assert "stack.npz: the archive is cut off or damaged" in refused(path)


def test_a_nan_label_in_a_stack(tmp_path, refused):
    said = refused(stack(tmp_path, y=np.array([0.0, 1.0, np.nan, 1.0, 0.0])))
    assert "stack.npz, column 'y': 1 subjects have no label (c)" in said


def test_python_objects(tmp_path, refused):
    path = tmp_path / "stack.npz"
    np.savez(path, matrices=np.stack([np.eye(3)] * 2), subjects=np.array(["a", None], dtype=object))
    assert "stack.npz, array 'subjects': holds Python objects" in refused(path)
    np.save(tmp_path / "stack.npy", np.array([{}, 1], dtype=object))
    assert "stack.npy: holds Python objects" in refused(tmp_path / "stack.npy", "--labels", "x.csv")


def header(shape, length=None):
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x02\x00" + (length or len(text)).to_bytes(4, "little") + text + bytes(64)


def test_a_header_of_gigabytes(tmp_path, refused):
    path = tmp_path / "stack.npy"
    path.write_bytes(header((31250, 200, 200)))
    assert "stack.npy: its header declares 10000000000 bytes (shape (31250, 200, 200)), the file holds 64" in refused(
        path
    )
    path.write_bytes(header((2,), length=2**32 - 1))
    assert "stack.npy: the header claims 4294967295 bytes" in refused(path)
    with zipfile.ZipFile(tmp_path / "stack.npz", "w") as archive:
        archive.writestr("matrices.npy", header((31250, 200, 200)))
    assert "array 'matrices': its header declares 10000000000 bytes" in refused(tmp_path / "stack.npz")


@pytest.mark.parametrize("name", ["../matrices.npy", "/tmp/matrices.npy"])
def test_a_path_outside_the_archive(tmp_path, refused, name):
    with zipfile.ZipFile(tmp_path / "stack.npz", "w") as archive:
        archive.writestr(name, header((1,)))
    assert "leads outside the archive" in refused(tmp_path / "stack.npz")


def test_a_link_in_the_archive(tmp_path, refused):
    info = zipfile.ZipInfo("matrices.npy")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "stack.npz", "w") as archive:
        archive.writestr(info, "/etc/passwd")
    assert "leads outside the archive" in refused(tmp_path / "stack.npz")


def test_a_folder_in_the_way_is_left_as_it_is(source, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("ten years")
    assert run(["import", str(source), str(out)]) == 2
    assert "choose another name" in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == ["thesis.tex"]


def test_an_error_half_way_leaves_nothing(source, refused):
    (source / "s3.tsv").write_text("1\t2\t3\n1\t2\tx\n1\t2\t4\n")
    assert "s3.tsv: line 2, column 3" in refused(source)


def test_options_of_other_layouts(source, refused):
    assert "layout 'tables' has no option top_k" in refused(source, "--top-k", "10")


def test_zero_is_an_answer_and_not_silence(tmp_path, refused):
    (tmp_path / "e.tsv").write_text("sample\ta\tb\ns1\t1\t2\n")
    assert "got 50, 0," in refused(tmp_path / "e.tsv", "--target", "type", "--per-network", "0")
    assert expression.MIN_SAMPLES > 0


@pytest.mark.real
def test_the_real_sets(real_data, tmp_path, capsys):
    """ABIDE Harvard-Oxford with its undefined people, UCLA CNP from its stack."""
    options = ["--atlas", "ho", "--where", "in_1009=1", "--kind", "correlation", "--json"]
    assert (
        run(["import", str(real_data / "abide"), str(tmp_path / "ho"), *options, "--drop-subjects", "undefined"]) == 0
    )
    said = json.loads(capsys.readouterr().out)
    assert said["nodes"] == 111
    assert said["networks"] == 761  # of 1009; the others have regions that do not vary
    assert run(["import", str(real_data / "ucla"), str(tmp_path / "ucla"), "--target", "PATIENT", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["networks"], said["nodes"], said["classes"]) == (224, 419, {"0": 110, "1": 114})
