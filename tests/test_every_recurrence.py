"""What holds for every recurrence, on every kind of array."""

import dask.array as da
import numpy as np
import pytest
from cases import (
    CASES,
    CASES_OF_ALL_DTYPES,
    PLACES,
    as_tuple,
    chunked,
    expanded,
    map_arrays,
    on_cupy,
    parameter,
)
from chunkings import CHUNKS_SOME_EMPTY, EMPTY_CHUNKS
from graphs import check_graph
from internals import few_chunks_a_task
from layouts import backwards, read_only, strided, swapped, unaligned

import mgrec

LENGTHS = [0, 1, 2, 63, 64, 65, 127, 128, 129, 1000]
SHAPES = [((7,), 0), *(((5, 4), k) for k in range(2)), *(((3, 70, 4), k) for k in range(-3, 0))]

# The others are solved by the kernels and graphs of these.
DISTINCT = [case for case in CASES if case.name not in ("scan, affine", "scan, mobius")]

EMPTY = [(0,), (0, 3), (3, 0), (2, 0, 3), (0, 2, 2), (2, 2, 0), (0, 2, 25), (2, 0, 25)]


def seeded(*key):
    return np.random.default_rng(sum(map(ord, repr(key))))


def each(values):
    return pytest.mark.parametrize("case", [*map(parameter, values)])


@pytest.mark.quick
@each([case for case in CASES if case.transfer_map])
def test_laws(case):
    mgrec.check_laws(case.transfer_map, *case.law_draws, state=case.law_state, rtol=1e-7)


@pytest.mark.parametrize(("case", "dtype", "place"), CASES_OF_ALL_DTYPES)
def test_every_dtype(case, dtype, place):
    operands, initial = case.draw(seeded(case.name, dtype), (150,), 0, dtype)
    result = place(case, operands, initial)
    case.check(result, operands, initial, dtype)


@pytest.mark.parametrize("place", PLACES)
@each(DISTINCT)
def test_every_length(case, place):
    for length in LENGTHS:
        operands, initial = case.draw(seeded(case.name, length), (length,), 0, "float64")
        for reverse in (False, True):
            result = place(case, operands, initial, 0, reverse)
            case.check(result, operands, initial, "float64", 0, reverse)


# Chunks of columns have kernels of their own for each case: in the short run those of these.
IN_COLUMNS = {"linear, s array", "linear, coefficients", "scan, matrix2"}
COLUMNS = ((3, 70, 4), -2)


@pytest.mark.quick
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("case", "shape", "axis"),
    [
        parameter(
            case,
            shape,
            axis,
            name=f"-{shape}-{axis}",
            is_short=(shape, axis) != COLUMNS or case.name in IN_COLUMNS,
        )
        for case in CASES
        for shape, axis in SHAPES
    ],
)
def test_every_axis_and_direction(case, shape, axis, place):
    operands, initial = case.draw(seeded(case.name, shape), shape, axis, "float64")
    for reverse in (False, True):
        result = place(case, operands, initial, axis, reverse)
        case.check(result, operands, initial, "float64", axis, reverse)


@pytest.mark.gpu
@pytest.mark.parametrize("method", ["single-pass", "p-scheme"])
@pytest.mark.parametrize(("shape", "axis"), [((3000,), 0), ((3, 700), 1), ((700, 5), 0)])
@each(CASES)
def test_every_method(case, shape, axis, method):
    operands, initial = case.draw(seeded(case.name, shape), shape, axis, "float64")
    for reverse in (False, True):
        result = on_cupy(case, operands, initial, axis, reverse, method=method)
        case.check(result, operands, initial, "float64", axis, reverse)


@pytest.mark.quick
@pytest.mark.parametrize("place", PLACES)
@each(DISTINCT)
def test_empty_arrays(case, place):
    for shape, axis in [(empty, k) for empty in EMPTY for k in range(len(empty))]:
        operands, initial = case.draw(seeded(case.name), shape, axis, "float64")
        for state in as_tuple(place(case, operands, initial, axis)):
            assert state.shape == shape


@pytest.mark.parametrize("case", [parameter(case, is_short=case.name in IN_COLUMNS) for case in DISTINCT])
def test_chunks_without_rows_or_steps(case):
    for chunks in CHUNKS_SOME_EMPTY + EMPTY_CHUNKS:
        shape = tuple(map(sum, chunks))

        def lazy(array, chunks=chunks, shape=shape):
            if np.ndim(array) == 0:
                return array
            offset = len(shape) - array.ndim
            sizes = [
                chunks[offset + k] if size == shape[offset + k] else (size,)
                for k, size in enumerate(array.shape)
            ]
            return da.from_array(array, chunks=tuple(sizes))

        operands, initial = case.draw(seeded(case.name, chunks), shape, 1, "float64")
        for memory in ("stream", "two-pass"):
            moved = [map_arrays(lazy, operand) for operand in operands]
            result = case.solve(*moved, initial=initial, axis=1, memory=memory)
            solved = da.compute(*as_tuple(result), scheduler="sync")
            solved = solved if isinstance(result, tuple) else solved[0]
            case.check(solved, operands, initial, "float64", 1)


CHUNKS = [(300,), (1,) * 8 + (292,), (0, 100, 0, 0, 200, 0), (130, 1, 169), (20,) * 15]


@pytest.mark.quick
@pytest.mark.parametrize("memory", ["stream", "two-pass"])
@pytest.mark.parametrize("chunks", CHUNKS, ids=lambda chunks: f"{len(chunks)} chunks")
@each(DISTINCT)
def test_any_chunks(case, chunks, memory, monkeypatch):
    few_chunks_a_task(monkeypatch, 3)
    operands, initial = case.draw(seeded(case.name, chunks), (300,), 0, "float64")
    lazy = [map_arrays(lambda a: chunked(a, 0, chunks), operand) for operand in operands]
    for reverse in (False, True):
        result = case.solve(*lazy, initial=initial, reverse=reverse, memory=memory)
        assert {state.chunks for state in as_tuple(result)} == {(chunks,)}
        for state in as_tuple(result):
            check_graph(state)
        solved = [state.compute(scheduler="sync") for state in as_tuple(result)]
        solved = tuple(solved) if isinstance(result, tuple) else solved[0]
        case.check(solved, operands, initial, "float64", 0, reverse)


@pytest.mark.parametrize("shape", [(70_001,), (2, 40_000), (3000, 25), (17_000, 2, 2)])
@each(DISTINCT)
@pytest.mark.usefixtures("eager_threads")
def test_any_number_of_threads(case, shape, monkeypatch):
    axis = int(np.argmax(shape))
    operands, initial = case.draw(seeded(case.name, shape), shape, axis, "float64")
    monkeypatch.setenv("MGREC_NUM_THREADS", "1")
    given = {"initial": initial, "axis": axis}
    one = {reverse: case.solve(*operands, **given, reverse=reverse) for reverse in (False, True)}
    for threads in range(2, 6):
        monkeypatch.setenv("MGREC_NUM_THREADS", str(threads))
        for reverse in (False, True) if threads == 3 else (False,):
            result = case.solve(*operands, **given, reverse=reverse)
            again = case.solve(*operands, **given, reverse=reverse)
            for a, b in zip(as_tuple(result), as_tuple(again), strict=True):
                np.testing.assert_array_equal(a, b)
            for a, b in zip(as_tuple(result), as_tuple(one[reverse]), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


LAYOUTS = [strided, backwards, read_only, unaligned, swapped, np.asfortranarray]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
@pytest.mark.parametrize("case", [parameter(case, is_short=case.name in IN_COLUMNS) for case in DISTINCT])
def test_every_layout_gives_the_same_bits_and_is_not_written(case, layout, place):
    def laid_out(operand):
        return layout(operand) if np.ndim(operand) else operand

    operands, initial = case.draw(seeded(case.name), (3, 100, 2), 1, "float64")
    wanted = place(case, operands, initial, 1)
    given = [map_arrays(laid_out, operand) for operand in operands]
    before = [np.array(array) for array in expanded(given, 1)]
    initial = tuple(map(laid_out, initial)) if isinstance(initial, tuple) else laid_out(initial)
    result = place(case, given, initial, 1)
    for a, b in zip(as_tuple(result), as_tuple(wanted), strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype.isnative
    for a, b in zip(expanded(given, 1), before, strict=True):
        np.testing.assert_array_equal(a, b)


@each(DISTINCT)
def test_results_are_new_arrays(case):
    operands, initial = case.draw(seeded(case.name), (80,), 0, "float64")
    for state in as_tuple(case.solve(*operands, initial=initial)):
        assert state.flags.writeable
        assert not any(np.shares_memory(state, array) for array in expanded(operands, 0))


@each(DISTINCT)
def test_the_bound_can_fail(case):
    # One wrong operand at one step, or one step left out, is seen.
    operands, initial = case.draw(seeded(case.name), (200,), 0, "float64")
    wrong = [np.array(np.broadcast_to(array, (200,))) for array in expanded(operands, 0)]
    wrong[0][150] += 1e-3
    wrong[-1][150] += 1e-3
    result = case.solve(*wrong, initial=initial)
    with pytest.raises(AssertionError):
        case.check(result, operands, initial, "float64")
    right = case.solve(*operands, initial=initial)
    case.check(right, operands, initial, "float64")
    with pytest.raises(AssertionError):
        case.check(right, operands, initial, "float32")
