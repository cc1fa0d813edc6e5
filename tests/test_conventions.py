"""One convention for all public functions: the arrays that they take and return."""

import inspect
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended
from conventions import (
    CASES,
    HEADER,
    KINDS,
    LAZY_TABLE,
    OF_BOOL,
    OF_FLOAT16,
    Case,
    computed_in,
    dtype_of,
    mapped_lists,
    reference_of,
    result_kinds,
    row_of,
)
from layouts import apart, backwards, read_only, strided, swapped, unaligned
from places import to_host

import mgrec
from mgrec.cli.examples import SOS, A, B, X


def each_case(short, cases=CASES):
    """Run a test on cases, by default alone on those with names in `short`."""
    marked = with_extended(cases, *(case for case in cases if case.qualified_name not in short))
    return pytest.mark.parametrize("case", marked, ids=lambda case: case.qualified_name)


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


TEXT = (Path(__file__).parents[1] / "docs/guide/interoperability.md").read_text()
SHORT = {"linear_recurrence", "lfilter", "filtfilt"}
WITH_LISTS = [case for case in CASES if case.lists]


@pytest.mark.parametrize("make", [to_torch, to_jax], ids=["torch", "jax"])
@each_case(SHORT, WITH_LISTS)
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


@pytest.mark.parametrize("convert", [to_float16, to_bool])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.qualified_name)
def test_every_function_takes_bools_and_float16(case: Case, convert) -> None:
    """Dask arrays have a dtype before anything is compiled."""
    others = {name: mapped_lists(x, np.float16) for name, x in case.others.items()}
    is_float16 = convert is to_float16
    result = case.call(lambda array: da.from_array(convert(array)), **(others if is_float16 else {}))
    last = arrays_of(result)[-1]
    wanted = dtype_of(case, *((OF_FLOAT16, "float32") if is_float16 else (OF_BOOL, "float64")))
    assert last.dtype == wanted


def len_of(value: Any) -> int:
    return len(value) if isinstance(value, (list, np.ndarray)) else 0


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.qualified_name)
def test_arrays_lie_anywhere_in_memory(case: Case, xp) -> None:
    """Calls are repeated: prepared ones are tried, too."""
    if xp is not np and case.name == "factor_tridiagonal":
        pytest.skip("arrays in host memory alone")
    steps = len(next(iter(case.data.values())))
    of_steps = {
        name: np.asarray(x) for name, x in case.others.items() if name == "target" or len_of(x) == steps
    }
    others = {name: xp.asarray(x) for name, x in of_steps.items()}
    has_axis = "axis" in inspect.signature(case.function).parameters
    has_lines = all(array.ndim == 1 for array in case.data.values())

    def results(layout: Any, index: Any, **options: Any) -> list:
        return arrays_of(case.call(lambda array: layout(xp.asarray(array[index])), **others, **options))

    calls = [partial(results, index=...)]
    if has_axis and has_lines:
        calls.append(partial(results, index=(slice(None), None), axis=0))
    for call in calls:
        wanted = call(lambda array: array)
        for layout in 2 * ([strided, apart, backwards] if xp is not np else LAYOUTS):
            for array, like in zip(call(layout), wanted, strict=True):
                np.testing.assert_array_equal(to_host(array), to_host(like))


LAYOUTS = [strided, apart, backwards, read_only, unaligned, swapped, np.asfortranarray]
SHORT_HALVES = {"linear_recurrence", "weighted_scan", "lfilter", "filtfilt", "solve_tridiagonal"}


@each_case(SHORT_HALVES)
def test_results_of_float16_are_those_of_the_wider_dtype(case: Case) -> None:
    """They are computed in this dtype, and rounded once."""

    def widened(value: Any) -> Any:
        is_half = getattr(value, "dtype", None) == np.float16
        return value.astype(computed_in(case)) if is_half else value

    narrow = {key: mapped_lists(x, np.float16) for key, x in case.others.items()}
    wide = {key: widened(x) for key, x in narrow.items()}
    found = arrays_of(case.call(to_float16, **narrow))
    wanted = arrays_of(case.call(lambda array: widened(to_float16(array)), **wide))
    assert np.asarray(found[-1]).dtype == dtype_of(case, OF_FLOAT16, "float32")
    for array, like in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(array, np.asarray(like).astype(np.asarray(array).dtype))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.qualified_name)
def test_complex_numbers_are_taken_or_refused_as_the_page_says(case: Case) -> None:
    bullet = TEXT.split("- **Complex numbers** are refused by ")[1].split(". Other")[0]
    name = case.qualified_name
    named = f"`mgrec.{name.partition('.')[0]}`" if "." in name else f"`{name}`"
    lazy = partial(case.call, lambda array: da.from_array(array.astype(np.complex64)))
    if named in bullet:
        with pytest.raises(TypeError, match="complex"):
            lazy()
    else:
        assert arrays_of(lazy())[-1].dtype.kind == "c"


@pytest.mark.parametrize("kind", ["list, array", "Dask array", "tensor", "DataArray"])
def test_initial_states_and_masks_are_arrays_of_numpy(kind: str) -> None:
    pytest.importorskip({"tensor": "torch", "DataArray": "xarray"}.get(kind, "numpy"))
    b, a, sections, outputs, lengths = (KINDS[kind](np.array(x)) for x in (B, A, SOS, X[:1], [2, 0, 3]))
    signal = mgrec.signal
    states = [signal.lfilter_zi(b, a), signal.sosfilt_zi(sections), signal.lfiltic(b, a, outputs)]
    if kind != "Dask array":
        states.append(mgrec.starts(lengths))
    assert {type(state) for state in states} == {np.ndarray}


@pytest.mark.parametrize(
    "call",
    [
        lambda x: mgrec.adjoint.linear_recurrence(x, x, 0.5, x),
        lambda x: mgrec.adjoint.lfilter(x, x, B, A, x),
        lambda x: mgrec.adjoint.ewm(x, x, alpha=0.5),
        lambda x: mgrec.adjoint.solve_tridiagonal(x, x, 1.0, 4.0, 1.0, x),
    ],
    ids=["linear_recurrence", "lfilter", "ewm", "solve_tridiagonal"],
)
def test_adjoints_take_tables_but_no_data_arrays(call) -> None:
    pytest.importorskip("xarray")
    with pytest.raises(TypeError, match="without names of dimensions; got a DataArray"):
        call(KINDS["DataArray"](X))
    series = KINDS["Series"](X)
    gradients = arrays_of(call(series))
    assert type([array for array in gradients if array is not None][-1]) is type(series)


NOT_TAKEN = {"truncate", "radius", "kwargs"}
"""Parameters of SciPy's Gaussians that the functions here have not."""


@pytest.mark.parametrize("module", ["signal", "ndimage"])
def test_arguments_are_those_of_scipy(module: str) -> None:
    peers = pytest.importorskip(f"scipy.{module}")
    functions = vars(getattr(mgrec, module))
    names = {name for name in functions["__all__"] if hasattr(peers, name)}
    assert names >= {*functions["__all__"]} - {"ewm"}
    for name in names:
        check_arguments(functions[name], getattr(peers, name))


def test_arguments_are_those_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    theirs = inspect.signature(pandas.Series.ewm).parameters
    ours = inspect.signature(mgrec.signal.ewm).parameters
    assert {*theirs} - {*ours} == {"self", "method"}
    assert all(ours[name].default == theirs[name].default for name in {*ours} & {*theirs})


def check_arguments(function, peer) -> None:
    """The parameters of the peer come first, with its order and defaults; others have names."""
    ours, theirs = (inspect.signature(f).parameters for f in (function, peer))
    assert {*theirs} - {*ours} <= NOT_TAKEN, function
    assert [x for x in ours if x in theirs] == [x for x in theirs if x in ours], function
    for name, parameter in ours.items():
        if name in theirs:
            assert parameter.default == theirs[name].default, (function, name)
        else:
            assert parameter.kind is parameter.KEYWORD_ONLY, (function, name)


SHORT_LENGTHS = {"linear_recurrence", "ewm", "hmm.log_likelihood", "statespace.log_likelihood"}


@each_case(SHORT_LENGTHS, [x for x in CASES if "reset" in inspect.signature(x.function).parameters])
def test_lengths_are_those_of_sequences(case: Case) -> None:
    lengths = [15, 0, 20, 5]
    found = case.call(np.asarray, lengths=lengths)
    wanted = case.call(np.asarray, reset=mgrec.starts(lengths))
    for array, values in zip(arrays_of(found), arrays_of(wanted), strict=True):
        np.testing.assert_array_equal(array, values)
    whole = case.call(np.asarray)
    pairs = zip(arrays_of(found), arrays_of(whole), strict=True)
    assert not all(np.array_equal(array, values) for array, values in pairs)


SHORT_ROWS = {"linear_recurrence", "lfilter", "ewm", "hmm.viterbi", "statespace.kalman_filter"}


def table() -> list[list[str]]:
    """The rows of the table of the documentation, the first one its header."""
    text = TEXT.split("## Results of each function\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_table_has_all_functions_their_default_axes_and_dtypes() -> None:
    header, _, *rows = table()
    assert header == HEADER
    assert [[*row[:2], *row[2 + len(KINDS) :]] for row in rows] == [row_of(x, ()) for x in CASES]
    modules = mgrec, mgrec.signal, mgrec.ndimage, mgrec.hmm, mgrec.statespace
    public = {getattr(module, name) for module in modules for name in module.__all__}
    taking = {function.__name__ for function in public if hasattr(function, "labelled")}
    assert taking - {"factor_tridiagonal"} <= {case.name for case in CASES}


@each_case(SHORT_ROWS)
def test_the_table_has_the_types_of_results(case: Case) -> None:
    pytest.importorskip("xarray")
    pytest.importorskip("torch")
    kinds = [*KINDS][:-1]
    (row,) = (row for row in table()[2:] if row[0] == reference_of(case))
    assert row[2 : 2 + len(kinds)] == [result_kinds(case, kind) for kind in kinds]


@pytest.mark.extended
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.qualified_name)
def test_the_table_has_the_types_of_results_of_lazy_tables(case: Case) -> None:
    pytest.importorskip("dask.dataframe")
    (row,) = (row for row in table()[2:] if row[0] == reference_of(case))
    assert row[1 + len(KINDS)] == result_kinds(case, LAZY_TABLE)


@pytest.mark.parametrize("module", [mgrec, mgrec.signal, mgrec.ndimage, mgrec.hmm, mgrec.statespace])
def test_errors_of_missing_arguments_name_the_function(module):
    functions = {name: getattr(module, name) for name in module.__all__ if name != "starts"}
    for name, function in functions.items():
        if callable(function) and not inspect.isclass(function):
            with pytest.raises(TypeError, match=name):
                function()
