"""One convention for all public functions: the arrays that they take and return."""

import dask.array as da
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


def to_float16(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float16) if array.dtype.kind == "f" else array


def to_bool(array: np.ndarray) -> np.ndarray:
    return array > array.max()  # numbers of hmm.sample must be below 1


OF_FLOAT16 = {
    "float16": {"linear_recurrence", "rational_recurrence", "scan", "weighted_scan", "lfilter",
                "sosfilt"},
    "float64": {"ewm", "decimate", "spline_filter1d", "spline_filter"},
}  # fmt: skip
"""Dtypes of results of float16 other than float32."""
OF_BOOL = {
    "bool": {"gaussian_filter1d", "gaussian_filter", "gaussian_laplace", "uniform_filter1d",
             "uniform_filter"},
    "int64": {"summed_area_table"},
}  # fmt: skip
"""Dtypes of results of bools other than float64."""
CODES = {"smith_waterman": "int64", "viterbi": "int32", "hmm.sample": "int32"}


def dtype_of(case: Case, dtypes: dict[str, set[str]], default: str) -> str:
    found = [dtype for dtype, names in dtypes.items() if case.name in names]
    return CODES.get(case.qualified_name, CODES.get(case.name, (found or [default])[0]))


@pytest.mark.parametrize("convert", [to_float16, to_bool])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.qualified_name)
def test_every_function_takes_bools_and_float16(case: Case, convert) -> None:
    """Dask arrays have a dtype before anything is compiled."""
    others = {name: mapped_lists(x, np.float16) for name, x in case.others.items()}
    is_float16 = convert is to_float16
    result = case.call(
        lambda array: da.from_array(convert(array)), **(others if is_float16 else {})
    )
    last = arrays_of(result)[-1]
    wanted = dtype_of(case, *((OF_FLOAT16, "float32") if is_float16 else (OF_BOOL, "float64")))
    assert last.dtype == (np.float64 if case.name == "log_likelihood" else wanted)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("linear_recurrence", np.float16),
        ("lfilter", np.float16),
        ("filtfilt", np.float32),
        ("solve_tridiagonal", np.float32),
        *(
            pytest.param(name, np.float32, marks=pytest.mark.extended)
            for name in ("summed_area_table", "wavefront", "sor", "gaussian_filter", "sosfiltfilt")
        ),
    ],
)
def test_numbers_of_float16_are_computed_in_float32(name: str, dtype) -> None:
    case = next(case for case in CASES if case.name == name)
    narrow = {key: mapped_lists(x, np.float16) for key, x in case.others.items()}
    wide = {key: mapped_lists(x, np.float32) for key, x in narrow.items()}
    found = case.call(to_float16, **narrow)
    wanted = case.call(lambda array: to_float16(array).astype(np.float32), **wide)
    assert (found.dtype, wanted.dtype) == (dtype, np.float32)
    np.testing.assert_allclose(found, wanted, rtol=1e-3 if dtype == np.float16 else 1e-6)
