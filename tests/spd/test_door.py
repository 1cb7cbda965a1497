"""What comes through the door, what is refused, and with which words."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rmixup.errors import DataError
from rmixup.spd import door


def test_numpy_comes_in_as_tensors_and_leaves_as_numpy():
    (S,), numpy = door.enter(S=np.eye(3, dtype=np.float32))
    assert S.dtype == torch.float32
    assert isinstance(door.leave(S, numpy), np.ndarray)


def test_one_tensor_among_arrays_keeps_the_result_a_tensor():
    tensors, numpy = door.enter(A=np.eye(2), B=torch.eye(2))
    assert not numpy
    assert [S.dtype for S in tensors] == [torch.float64, torch.float64]


def test_unusual_memory_is_taken_without_a_warning():
    S = np.arange(16.0).reshape(4, 4)
    S = S + S.T
    S.setflags(write=False)
    reversed_, foreign, fortran = S[::-1, ::-1], S.astype(">f8"), np.asfortranarray(S)
    for given_, expected in [(S, S), (reversed_, reversed_), (foreign, S), (fortran, S)]:
        (entered,), _ = door.enter(S=given_)
        np.testing.assert_array_equal(entered.numpy(), expected)
    assert not np.shares_memory(door.enter(S=S).tensors[0].numpy(), S)


def test_nested_lists_and_empty_batches_enter():
    assert door.enter(S=[[1.0, 0.5], [0.5, 1.0]]).tensors[0].shape == (2, 2)
    assert door.enter(S=np.zeros((0, 3, 3))).tensors[0].shape == (0, 3, 3)


@pytest.mark.parametrize(
    "values",
    [
        np.eye(2, dtype=complex),
        np.eye(2, dtype=int),
        np.eye(2, dtype=bool),
        np.eye(2, dtype=object),
        np.eye(2, dtype=np.float16),
        np.eye(2, dtype=np.longdouble),
        torch.eye(2, dtype=torch.complex64),
        torch.eye(2, dtype=torch.int32),
        torch.eye(2, dtype=torch.bfloat16),
    ],
    ids=lambda v: str(v.dtype),
)
def test_other_dtypes_are_refused_by_name(values):
    with pytest.raises(DataError, match=rf"S must be real floating .* but is {str(values.dtype).split('.')[-1]}"):
        door.enter(S=values)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (4, 2, 3), (), (0, 0)])
def test_what_is_not_square_is_refused_with_its_shape(shape):
    with pytest.raises(DataError, match=r"square matrices.*has shape \(" + ", ".join(map(str, shape))):
        door.enter(S=np.zeros(shape))


def test_sizes_and_leading_shapes_must_fit():
    with pytest.raises(DataError, match=r"one size n, but the shapes are A \(2, 2\), B \(3, 3\)"):
        door.enter(A=np.eye(2), B=np.eye(3))
    with pytest.raises(DataError, match="leading shapes must broadcast"):
        door.enter(A=np.zeros((2, 3, 3)), B=np.zeros((5, 3, 3)))
    with pytest.raises(DataError, match="one device, but A is on cpu, B is on meta"):
        door.enter(A=torch.eye(2), B=torch.eye(2, device="meta"))


def test_non_finite_and_asymmetric_matrices_are_named_together():
    S = np.stack([np.eye(3)] * 6).reshape(2, 3, 3, 3)
    S[0, 1, 0, 2] = S[0, 1, 2, 0] = np.nan
    S[1, 2, 1, 1] = -np.inf
    S[1, 0, 2, 1] = 0.25
    with pytest.raises(DataError) as error:
        door.enter(S=S)
    text = str(error.value)
    assert "matrix (0, 1) has nan at [0, 2] (2 such entries)" in text
    assert "matrix (1, 2) has -inf at [1, 1] (1 such entries)" in text
    assert "matrix (1, 0) has 0 at [1, 2] but 0.25 at [2, 1]" in text


def test_problems_of_several_arguments_are_reported_together():
    with pytest.raises(DataError, match=r"A must be symmetric.*\. B must be finite"):
        door.enter(A=np.array([[1.0, 2.0], [0.0, 1.0]]), B=np.full((2, 2), np.inf))


def test_the_worst_entry_is_the_one_named():
    S = np.eye(4)
    S[0, 1], S[2, 3] = 0.1, 0.7
    with pytest.raises(DataError, match=r"the matrix has 0.7 at \[2, 3\] but 0 at \[3, 2\]"):
        door.enter(S=S)


def test_many_broken_matrices_are_counted():
    with pytest.raises(DataError, match=r"matrix 4 has nan .*; and 15 more"):
        door.enter(S=np.full((20, 2, 2), np.nan))


@given(st.sampled_from([np.float32, np.float64]), st.floats(1e-20, 1e20), st.booleans())
def test_asymmetry_counts_from_the_named_tolerance_at_every_scale(dtype, scale, above):
    S = (np.full((3, 3), 0.5) * scale).astype(dtype)
    tolerance = door.symmetry_tolerance(torch.from_numpy(S).dtype)
    S[0, 1] *= 1 + (2 if above else 0.5) * tolerance
    if above:
        with pytest.raises(DataError, match="symmetric"):
            door.enter(S=S)
    else:
        (entered,), _ = door.enter(S=S)
        assert torch.equal(entered, entered.mT)


def test_the_tolerance_is_the_root_of_eps():
    assert door.symmetry_tolerance(torch.float32) == pytest.approx(3.45e-4, rel=0.01)
    assert door.symmetry_tolerance(torch.float64) == pytest.approx(1.49e-8, rel=0.01)


def test_the_largest_floats_enter_without_overflow():
    top = float(np.finfo(np.float32).max)
    (S,), _ = door.enter(S=np.full((2, 2), top, dtype=np.float32))
    assert float(S.max()) == top


def test_gradients_pass_the_door_symmetrically():
    S = torch.eye(2, dtype=torch.float64, requires_grad=True)
    (entered,), _ = door.enter(S=S)
    entered[0, 1].backward()
    torch.testing.assert_close(S.grad, torch.tensor([[0.0, 0.5], [0.5, 0.0]], dtype=torch.float64))
