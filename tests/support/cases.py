"""The one table of recurrences: every generic test runs on all of them.

A new recurrence adds a case to CASES, a new kind of array an entry to PLACES.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
import oracles
import pytest
from graphs import check_graph
from places import from_gpu, on_gpu

import mgrec

FLOATS = ("float32", "float64")
EVERY_DTYPE = tuple(np.dtype(char).name for char in "bhilBHILefdFD")


@dataclass(frozen=True)
class Case:
    """One recurrence, and how it is judged.

    `solve` is the public function, called with operands and ``initial``, ``axis``, ``reverse`` and
    ``memory``. `draw(generator, shape, axis, dtype)` returns operands that broadcast to `shape`
    (arrays, scalars or Coefficient) and the initial state. `step(state, *operands)` is the
    recurrence itself, on arrays of rows. `bound(operands, initial, dtype, axis, reverse)` returns
    (exact, bound), and `reason` says why the bound is what it is. For `law_draws` and `law_state`
    see :func:`mgrec.check_laws`.
    """

    name: str
    solve: Callable[..., Any]
    draw: Callable[..., Any]
    step: Callable[..., Any]
    bound: Callable[..., Any]
    reason: str
    dtypes: tuple[str, ...] = FLOATS
    transfer_map: Any = None
    law_draws: tuple[Callable[..., Any], ...] = ()
    law_state: Callable[..., Any] | None = None

    def check(self, result, operands, initial, dtype, axis=-1, reverse=False):
        """Assert dtype, shape, and an error below the bound."""
        arrays = expanded(operands, axis)
        exact, bound = self.bound(arrays, initial, computed(dtype), axis, reverse)
        states = zip(*map(as_tuple, (result, exact, bound)), strict=True)
        for values, wanted, most in states:
            assert values.dtype == dtype
            assert values.shape == wanted.shape
            if values.dtype.kind in "iu":
                np.testing.assert_array_equal(values, wanted)
                continue
            if values.dtype == np.float16:
                # Rounded once more, on its way out.
                most = most + np.abs(wanted) * 2.0**-11 + 2.0**-25
            excess = ~(np.abs(values - wanted) <= most)
            assert not excess.any(), (values[excess][0], wanted[excess][0], most[excess][0])


def as_tuple(states):
    return states if isinstance(states, tuple) else (states,)


def computed(dtype):
    return np.dtype("float32") if dtype == np.float16 else np.dtype(dtype)


def expanded(operands, axis):
    """Operands with every Coefficient written out as an array."""
    arrays = [a for o in operands for a in getattr(o, "arrays", (o,))]
    shape = np.broadcast_shapes(*map(np.shape, arrays))
    index = np.arange(shape[axis]) if shape else np.arange(0)
    index = index.reshape([-1 if k == axis % len(shape) else 1 for k in range(len(shape))])
    return [
        operand.function.function(index, *operand.arrays)
        if isinstance(operand, mgrec.Coefficient)
        else operand
        for operand in operands
    ]


# --- operands -----------------------------------------------------------------------------------


def numbers(generator, shape, dtype, most=1.0, least=None):
    """Numbers of a dtype: between `least` (-most) and `most`, or any integers."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return generator.integers(info.min, info.max, shape, dtype, endpoint=True)
    least = -most if least is None else least
    values = generator.uniform(least, most, shape)
    if dtype.kind == "c":
        values = values + 1j * generator.uniform(least, most, shape)
    return values.astype(dtype)


def small(generator, shape, dtype, most=3):
    """Integers that are small enough for no sum of 1,000 to overflow 32 bits."""
    return generator.integers(-most, most, shape, endpoint=True).astype(dtype)


def rows(shape, axis):
    return tuple(np.delete(shape, axis)) if len(shape) > 1 else ()


def draw_linear(form):
    def draw(generator, shape, axis, dtype):
        own = list(shape)
        if form == "row":
            own[axis] = 1
        if form == "columns":
            own = own[axis % len(own) :]
            own[1:] = [1] * len(own[1:])
        if form == "scalar":
            own = ()
        s = numbers(generator, tuple(own), dtype, most=0.99 if np.dtype(dtype).kind != "c" else 0.7)
        t = numbers(generator, shape, dtype)
        return (s[()], t), numbers(generator, rows(shape, axis), dtype)[()]

    return draw


def draw_coefficients(generator, shape, axis, dtype):
    s = mgrec.Coefficient(lambda i: 0.5 + 0.4 * np.sin(0.001 * i))
    t = mgrec.Coefficient(lambda i, x: np.where(x > 0, x, 1 / (i + 2.0)), numbers(generator, shape, dtype))
    return (s, t), np.dtype(dtype).type(0.5)


def draw_rational(generator, shape, axis, dtype):
    operands = (numbers(generator, shape, dtype, most=2.0, least=0.1) for _ in range(4))
    return tuple(operands), numbers(generator, rows(shape, axis), dtype, 2.0, 0.1)[()]


def draw_plus(generator, shape, axis, dtype):
    fill = small if np.dtype(dtype).kind == "i" else numbers
    operands = (fill(generator, shape, dtype), fill(generator, shape, dtype))
    return operands, fill(generator, rows(shape, axis), dtype)[()]


def draw_matrix(generator, shape, axis, dtype):
    a, b, c, d = (numbers(generator, shape, dtype, most=0.5) for _ in range(4))
    e, f = (numbers(generator, shape, dtype) for _ in range(2))
    initial = tuple(numbers(generator, rows(shape, axis), dtype)[()] for _ in range(2))
    return (a, b, c, d, e, f), initial


def draw_reset(generator, shape, axis, dtype):
    x = numbers(generator, shape, dtype) if np.dtype(dtype).kind == "f" else small(generator, shape, dtype)
    reset = (generator.random(shape) < 0.05).astype(dtype)
    zero = np.dtype(dtype).type(0)
    return (x, reset), (zero, zero)


# --- a recurrence of a user's own -----------------------------------------------------------------


def since_reset_step(state, x, reset):
    total, count = state
    return (1 - reset) * total + x, (1 - reset) * count + 1


since_reset = mgrec.TransferMap(
    lift=lambda x, reset: (1 - reset, x, 1 + 0 * x),
    compose=lambda earlier, later: (
        earlier[0] * later[0],
        later[0] * earlier[1] + later[1],
        later[0] * earlier[2] + later[2],
    ),
    apply=lambda step, state: (step[0] * state[0] + step[1], step[0] * state[1] + step[2]),
    identity=(1, 0, 0),
    name="since_reset",
)


# --- the table ------------------------------------------------------------------------------------


def scanned(transfer_map):
    def solve(*operands, initial, **options):
        return mgrec.scan(transfer_map, *operands, initial=initial, **options)

    return solve


def sized(step, size, factor):
    def bound(operands, initial, dtype, axis, reverse):
        return oracles.size_bound(step, size, operands, initial, dtype, factor, axis, reverse)

    return bound


def linear_bound(operands, initial, dtype, axis, reverse):
    if np.dtype(dtype).kind in "iu":
        return sized(oracles.linear, oracles.linear, 0)(operands, initial, dtype, axis, reverse)
    return oracles.linear_bound(*operands, initial, dtype, axis, reverse)


def rational_bound(operands, initial, dtype, axis, reverse):
    return oracles.rational_bound(*operands, initial, dtype, axis, reverse)


def positive(generator):
    return generator.uniform(0.1, 2.0)


LINEAR = "the docstring of linear_recurrence"
RATIONAL = "the docstring of rational_recurrence"
CASES = [
    *(
        Case(
            f"linear, s {form}",
            mgrec.linear_recurrence,
            draw_linear(form),
            oracles.linear,
            linear_bound,
            LINEAR,
            EVERY_DTYPE if form == "array" else FLOATS,
            mgrec.maps.affine,
        )
        for form in ("array", "row", "columns", "scalar")
    ),
    Case(
        "linear, coefficients",
        mgrec.linear_recurrence,
        draw_coefficients,
        oracles.linear,
        # The coefficients themselves have errors of a few units, sin above all.
        lambda *a: (lambda exact, bound: (exact, 2 * bound))(*linear_bound(*a)),
        f"twice {LINEAR}, for the rounding of the coefficients",
    ),
    Case(
        "rational, positive",
        mgrec.rational_recurrence,
        draw_rational,
        oracles.rational,
        rational_bound,
        RATIONAL,
        transfer_map=mgrec.maps.mobius,
        law_draws=(positive,) * 4,
        law_state=positive,
    ),
    Case(
        "scan, affine",
        scanned(mgrec.maps.affine),
        draw_linear("array"),
        oracles.linear,
        linear_bound,
        LINEAR,
        ("float64",),
    ),
    Case(
        "scan, mobius",
        scanned(mgrec.maps.mobius),
        draw_rational,
        oracles.rational,
        rational_bound,
        RATIONAL,
        ("float64",),
    ),
    *(
        Case(
            f"scan, {name}",
            scanned(getattr(mgrec.maps, name)),
            draw_plus,
            getattr(oracles, name),
            sized(getattr(oracles, name), lambda w, s, c: w + s + c, 2),
            "every sum rounds once, whether in the loop or in compose",
            dtypes,
            getattr(mgrec.maps, name),
        )
        for name, dtypes in (("max_plus", (*FLOATS, "int64")), ("min_plus", ("float64",)))
    ),
    Case(
        "scan, matrix2",
        scanned(mgrec.maps.matrix2),
        draw_matrix,
        oracles.matrix2,
        sized(oracles.matrix2, oracles.matrix2, 16),
        "three roundings a step, twice (loop and compose), real and complex",
        ("float64", "complex128", "int32"),
        mgrec.maps.matrix2,
        law_state=lambda generator: tuple(generator.normal(size=2)),
    ),
    Case(
        "scan, a user's own",
        scanned(since_reset),
        draw_reset,
        since_reset_step,
        sized(since_reset_step, lambda state, x, reset: (state[0] + x, state[1] + 1), 4),
        "one rounding a sum, in the loop and in compose",
        ("float64", "int64"),
        since_reset,
        law_draws=(lambda g: g.normal(), lambda g: float(g.integers(0, 2))),
        law_state=lambda generator: tuple(generator.normal(size=2)),
    ),
]
# Compiled for themselves, they say again what others of their kind say.
REPEATED = {"linear, s row", "linear, s columns", "scan, affine", "scan, mobius", "scan, min_plus"}
# In the short run other cases have float64 alone, and the array of s these where nothing is lazy.
SHORT_DTYPES = {"float32", "float64", "int64", "complex128"}


def parameter(case, *others, is_short=True, name="", more_marks=()):
    """Return a case, and what comes with it, as a parameter: in the short run, or extended."""
    is_short = is_short and case.name not in REPEATED
    marks = [] if is_short else [pytest.mark.extended]
    return pytest.param(case, *others, id=f"{case.name}{name}", marks=[*marks, *more_marks])


# --- kinds of arrays ------------------------------------------------------------------------------


def chunked(array, axis=-1, size=40):
    """A Dask array with chunks of `size` along the axis and of 2 along the others."""
    if np.ndim(array) == 0:
        return array
    chunks = [2] * array.ndim
    if -array.ndim <= axis < array.ndim:
        chunks[axis] = size if array.shape[axis] != 1 else 1
    return da.from_array(array, chunks=tuple(chunks))


def map_arrays(function, operand):
    """An operand with `function` applied to its arrays, those of a Coefficient included."""
    if isinstance(operand, mgrec.Coefficient):
        return mgrec.Coefficient.of(operand.function, *map(function, operand.arrays))
    return function(operand)


def on_numpy(case, operands, initial, axis=-1, reverse=False, **options):
    return case.solve(*operands, initial=initial, axis=axis, reverse=reverse, **options)


def on_dask(case, operands, initial, axis=-1, reverse=False, to_block=None, **options):
    ndim = max(np.ndim(a) for o in operands for a in getattr(o, "arrays", (o,)))
    from_end = axis - ndim if axis >= 0 else axis

    def lazy(array):
        array = chunked(array, from_end)
        return array.map_blocks(to_block) if to_block and isinstance(array, da.Array) else array

    moved = [map_arrays(lazy, operand) for operand in operands]
    results = case.solve(*moved, initial=initial, axis=axis, reverse=reverse, **options)
    for result in as_tuple(results):
        assert isinstance(result, da.Array)
        assert (type(result._meta) is np.ndarray) == (to_block is None)
        check_graph(result)
    computed = da.compute(*as_tuple(results), scheduler="sync")
    return computed if isinstance(results, tuple) else computed[0]


def on_cupy(case, operands, initial, axis=-1, reverse=False, **options):
    moved = [map_arrays(on_gpu, operand) for operand in operands]
    states = tuple(map(on_gpu, initial)) if isinstance(initial, tuple) else on_gpu(initial)
    results = case.solve(*moved, initial=states, axis=axis, reverse=reverse, **options)
    return tuple(map(from_gpu, results)) if isinstance(results, tuple) else from_gpu(results)


def on_dask_of_cupy(*arguments, **options):
    import cupy

    results = on_dask(*arguments, to_block=cupy.asarray, **options)
    return tuple(map(from_gpu, results)) if isinstance(results, tuple) else from_gpu(results)


HOST_PLACES = [pytest.param(on_numpy, id="numpy"), pytest.param(on_dask, id="dask")]
PLACES = [
    *HOST_PLACES,
    pytest.param(on_cupy, id="cupy", marks=pytest.mark.gpu),
    pytest.param(on_dask_of_cupy, id="dask of cupy", marks=pytest.mark.gpu),
]


def is_short_dtype(case, dtype, place):
    is_lazy = place in (on_dask, on_dask_of_cupy)
    is_compared = case.name == "linear, s array" and dtype in SHORT_DTYPES and not is_lazy
    return dtype == "float64" or is_compared


IS_EMULATED = {("linear, s array", "float64"): [pytest.mark.emulated]}
CASES_OF_ALL_DTYPES = [
    parameter(
        case,
        dtype,
        *place.values,
        name=f"-{dtype}-{place.id}",
        is_short=is_short_dtype(case, dtype, *place.values),
        more_marks=[*place.marks, *IS_EMULATED.get((case.name, dtype), ())],
    )
    for case in CASES
    for dtype in case.dtypes
    for place in PLACES
]
