"""Text files of numbers: what is accepted, and how everything else is refused."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rmixup.data.readers._text import read_grid, read_text
from rmixup.errors import FormatError

NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False)


def written(folder: Path, content: bytes | str, name: str = "a.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@given(
    values=arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(2, 5)), elements=NUMBERS),
    delimiter=st.sampled_from(["\t", ",", ";", " "]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    mark=st.booleans(),
    header=st.booleans(),
    labelled=st.booleans(),
)
def test_what_is_written_in_any_common_form_is_read_exactly(  # noqa: PLR0917 -- hypothesis passes them by name
    tmp_path_factory, values, delimiter, end, mark, header, labelled
):
    columns = [f"roi_{k}" for k in range(values.shape[1])]
    rows = [[f"r{k}", *map(repr, row)] if labelled else list(map(repr, row)) for k, row in enumerate(values.tolist())]
    top = [["Node", *columns] if labelled else columns] if header else []
    text = end.join(delimiter.join(row) for row in top + rows) + end
    path = written(tmp_path_factory.mktemp("grid"), ("\ufeff" if mark else "") + text)
    grid = read_grid(path)
    np.testing.assert_array_equal(grid.values, values)
    assert grid.columns == (tuple(columns) if header else None)
    assert grid.rows == (tuple(f"r{k}" for k in range(len(values))) if labelled else None)


@pytest.mark.parametrize(
    ("content", "columns", "values"),
    [
        ("#1\t#2\n1\t2\n3\t4\n5\t6\n", ("1", "2"), [[1, 2], [3, 4], [5, 6]]),  # PCP
        ("# made by a tool\n# 3dROIstats\n1 2\n3 4\n5 6\n", None, [[1, 2], [3, 4], [5, 6]]),  # AFNI
        ("# a b\n1 2\n3 4\n5 6\n", ("a", "b"), [[1, 2], [3, 4], [5, 6]]),  # numpy.savetxt
        (",a,b\n0,1,2\n1,3,4\n2,5,6\n", ("a", "b"), [[1, 2], [3, 4], [5, 6]]),  # pandas' index
        ("1\t2\t\n3\t4\t\n", None, [[1, 2], [3, 4]]),  # a tab at the end of each line
        ("a\tb\n1\tn/a\nNaN\t4\n", ("a", "b"), [[1, np.nan], [np.nan, 4]]),  # BIDS
        ('"a","b"\n1,2\n', ("a", "b"), [[1, 2]]),
        ("1 2\n3 4\n\n\n", None, [[1, 2], [3, 4]]),
        ("  1.0   2.0\n 3.0  4.0\n", None, [[1, 2], [3, 4]]),  # fixed width, as MATLAB's -ascii
    ],
)
def test_the_dialects_of_the_field(tmp_path, content, columns, values):
    grid = read_grid(written(tmp_path, content))
    assert grid.columns == columns
    np.testing.assert_array_equal(grid.values, values)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "the file is empty"),
        (b"\xff\xfea\0b\0", "UTF-16"),
        (b"\x93NUMPY\0\0\0", "binary data"),
        ("# only\n# comments\n", "comments only"),
        ("a,b\n", "the header only"),
        ("1,2\n3,x\n", "line 2, column 2: expected a number, found 'x'"),
        ("x,2\n3,4\n", "line 1, column 1: expected a number, found 'x'"),
        ("a,b\nx,2\n3,4\n", "line 2, column 1: expected a number, found 'x'"),
        ("a,b\n1,2\n3,\n", "line 3, column 2: expected a number, found an empty cell"),
        ("1,2\n3\n5,6\n", "line 2 has 1 values, expected 2"),
        ("1,2\n\n5,6\n", "line 2 is blank"),
        ("1,5\t2,5\n3,5\t4,5\n", "decimal commas"),
        ("1,5;2,5\n", "decimal commas"),
        ("a,b,c\n1,2\n3,4\n", "3 names, the rows have 2"),
        ("Node\ta\tb\nb\t1\t2\na\t2\t1\n", "different orders"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(tmp_path, content, said):
    path = written(tmp_path, content)
    with pytest.raises(FormatError, match=said) as caught:
        read_grid(path)
    assert str(path) in str(caught.value)


def test_an_old_encoding_is_read_as_latin_1(tmp_path):
    assert read_text(written(tmp_path, "Zürich".encode("latin-1"))) == "Zürich"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("Node,a,b\nx,1,2\ny,3,4,5\n", "line 3 has 4 values, expected 3"),
        ("Node,a,b\nx,1,2\n\ny,3,4\n", "line 3 is blank inside the table"),
        ("x 1 2\n\ny 3 4\n", "line 2 is blank inside the table"),
        ("1 2\n\n3 4\n", "line 2 is blank inside the table"),
    ],
)
def test_rows_that_numpy_would_pass_over_are_refused(tmp_path, content, said):
    with pytest.raises(FormatError, match=said):
        read_grid(written(tmp_path, content))
