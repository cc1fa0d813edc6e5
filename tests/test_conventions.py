"""One convention for all public functions: the arrays that they take and return."""

import numpy as np
import pytest
from conventions import CASES, Case, mapped_lists


def arrays_of(result: object) -> list:
    """All arrays and numbers of a result."""
    if isinstance(result, tuple):
        return [array for item in result for array in arrays_of(item)]
    return [result]


def in_float32(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def to_torch(array: np.ndarray):
    return pytest.importorskip("torch").tensor(array)


def to_jax(array: np.ndarray):
    return pytest.importorskip("jax.numpy").asarray(array)


SHORT = {"linear_recurrence", "lfilter", "filtfilt"}
WITH_LISTS = [case for case in CASES if case.lists]


@pytest.mark.parametrize("make", [to_torch, to_jax], ids=["torch", "jax"])
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[] if case.name in SHORT else [pytest.mark.extended])
        for case in WITH_LISTS
    ],
)
def test_a_list_beside_a_tensor_takes_its_dtype(case: Case, make) -> None:
    lists = case.call(lambda array: make(in_float32(array)))
    arrays = {name: mapped_lists(x, np.float32) for name, x in case.others.items()}
    wanted = case.call(lambda array: make(in_float32(array)), **arrays)
    assert len(arrays_of(lists)) == len(arrays_of(wanted))
    for array, like in zip(arrays_of(lists), arrays_of(wanted), strict=True):
        assert type(array) is type(like)
        assert getattr(array, "dtype", int) == getattr(like, "dtype", int)
