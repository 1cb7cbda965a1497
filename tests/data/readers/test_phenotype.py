"""Tables about people, and how they are joined."""

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest

from rmixup.data.readers._phenotype import bare_id, find_table, join, read_table, typed
from rmixup.errors import DataError, FormatError


def table_file(folder, text, name="participants.tsv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_ids_keep_their_zeros_and_missing_values_are_missing(tmp_path):
    table = read_table(table_file(tmp_path, "\ufeffparticipant_id\tage\tnote\r\n001\t9\tn/a\r\n002\tNaN\tok, fine\r\n"))
    assert table["participant_id"].tolist() == ["001", "002"]
    assert table["age"].isna().tolist() == [False, True]
    assert table["note"].isna().tolist() == [True, False]
    assert typed(table)["age"].dtype == np.float64
    assert typed(table.iloc[:1])["age"].dtype == np.int64


def test_quoted_commas_stay_in_their_cell(tmp_path):
    table = read_table(table_file(tmp_path, 'id,note\n1,"a, b"\n', "labels.csv"))
    assert table["note"].tolist() == ["a, b"]


def test_parquet_gives_the_same_table(tmp_path):
    frame = pd.DataFrame({"participant_id": ["01", "02"], "age": [9, 12]})
    frame.to_parquet(tmp_path / "labels.parquet")
    read = read_table(tmp_path / "labels.parquet")
    assert typed(join(read, tmp_path, ["01", "02"]))["age"].tolist() == [9, 12]
    frame.set_index("participant_id").to_parquet(tmp_path / "labels.parquet")
    assert read_table(tmp_path / "labels.parquet")["participant_id"].tolist() == ["01", "02"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("participant_id\tage\n", "the header only"),
        ("participant_id\tage\n1\t2\n1\t2\t3\t4\n", "line 3"),
    ],
)
def test_damaged_tables_are_named(tmp_path, text, said):
    path = table_file(tmp_path, text)
    with pytest.raises(FormatError, match=said) as caught:
        read_table(path)
    assert str(path) in str(caught.value)


def test_damaged_parquet_is_named(tmp_path):
    (tmp_path / "labels.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(FormatError, match="cannot be read as Parquet"):
        read_table(tmp_path / "labels.parquet")


def test_text_that_parquet_holds_as_bytes_is_text(tmp_path):
    path = tmp_path / "labels.parquet"
    classes = pd.Categorical([b"a", None])
    pd.DataFrame({"id": [b"s\xc3\xa91", b"s2"], "age": [3, 4], "dx": classes}).to_parquet(path)
    read = read_table(path)
    assert read["id"].tolist() == ["sé1", "s2"]
    assert read["age"].tolist() == [3, 4]
    assert read["dx"].tolist()[0] == "a"
    assert read["dx"].isna().tolist() == [False, True]


def test_parquet_that_no_text_table_could_be_is_refused(tmp_path):
    path = tmp_path / "labels.parquet"
    pd.DataFrame({"id": ["a", "b"], "dx": [b"fine", b"\xff"]}).to_parquet(path)
    with pytest.raises(FormatError, match=r"column 'dx' holds bytes that are no UTF-8 text \(b'\\xff'\); write it as"):
        read_table(path)
    # Columns of one name, by which pandas cannot write but which a file can claim to have.
    table = pyarrow.Table.from_pandas(pd.DataFrame({"id": ["a"], "dx": ["x"], "site": ["y"]}))
    told = table.schema.metadata[b"pandas"].replace(b'"name": "site"', b'"name": "dx"')
    pyarrow.parquet.write_table(table.replace_schema_metadata({b"pandas": told}), path)
    with pytest.raises(FormatError, match="dx names more than one column; give each its own name"):
        read_table(path)


def test_the_column_that_matches_is_found_and_order_does_not_matter(tmp_path):
    table = pd.DataFrame({"SUB_ID": ["50003", "50004"], "FILE_ID": ["Pitt_0050004", "Pitt_0050003"], "x": ["a", "b"]})
    joined = join(table, tmp_path, ["Pitt_0050003", "Pitt_0050004"])
    assert joined["x"].to_dict() == {"Pitt_0050003": "b", "Pitt_0050004": "a"}
    joined = join(table, tmp_path, ["0050003"])
    assert joined["x"].to_dict() == {"0050003": "a"}


@pytest.mark.parametrize(
    ("given", "bare"),
    [
        ("sub-01", "1"),
        ("0050003", "50003"),
        ("7.0", "7"),
        ("sub-A01", "A01"),
        ("Subject007", "7"),
        ("subway", "subway"),
    ],
)
def test_bare_ids(given, bare):
    assert bare_id(given) == bare


def test_ids_that_only_meet_by_losing_their_difference_do_not_meet(tmp_path):
    table = pd.DataFrame({"participant_id": ["1"], "x": ["a"]})
    with pytest.raises(DataError, match="no id in column 'participant_id' matches"):
        join(table, tmp_path, ["01", "001"])


def test_other_ids_are_shown_side_by_side(tmp_path):
    table = pd.DataFrame({"participant_id": ["a1", "a2"], "x": ["a", "b"]})
    with pytest.raises(DataError, match="the table has a1, a2, the data have s1, s2: name the column with --id-column"):
        join(table, tmp_path / "t.tsv", ["s1", "s2"])


def test_an_id_in_two_rows_is_refused_only_when_it_matters(tmp_path):
    table = pd.DataFrame({"FILE_ID": ["no_filename", "no_filename", "a", "b", "b"], "x": list("12345")})
    assert join(table, tmp_path, ["a"])["x"].tolist() == ["3"]
    with pytest.raises(DataError, match="b stand in more than one row"):
        join(table, tmp_path, ["a", "b"])


def test_an_unknown_id_column_lists_the_columns(tmp_path):
    with pytest.raises(DataError, match="no column is named 'who'; there are: a, b"):
        join(pd.DataFrame({"a": ["1"], "b": ["2"]}), tmp_path, ["1"], "who")


def test_the_table_is_found_beside_the_data_or_above_and_never_guessed(tmp_path):
    inner = tmp_path / "data"
    inner.mkdir()
    assert find_table(inner) is None
    above = table_file(tmp_path, "id\n1\n", "labels.csv")
    assert find_table(inner) == above
    beside = table_file(inner, "id\n1\n", "participants.tsv")
    assert find_table(inner) == beside
    table_file(inner, "id\n1\n", "phenotypes.csv")
    with pytest.raises(DataError, match="choose with --labels"):
        find_table(inner)
