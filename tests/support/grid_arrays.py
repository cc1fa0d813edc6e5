"""Arrays and comparisons that the tests of recurrences over grids share."""

import dask.array as da
import numba
import numpy as np
import pytest
from graphs import check_graph

import mgrec


def numbers(shape, dtype="f8", seed=0, scale=1):
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(dtype)


def cumsum_twice(x, axes=(-2, -1), dtype=None):
    return np.cumsum(np.cumsum(x, axes[1], dtype), axes[0], dtype)


@numba.njit
def sweep_rows(x, rhs, keep, weight):
    """The loop; returns the largest update."""
    largest = 0.0
    for i in range(1, x.shape[0] - 1):
        for j in range(1, x.shape[1] - 1):
            around = x[i - 1, j] + x[i, j - 1] + x[i + 1, j] + x[i, j + 1] - rhs[i, j]
            new = keep * x[i, j] + weight * around
            update = abs(new - x[i, j])
            if update > largest or np.isnan(update):
                largest = update
            x[i, j] = new
    return largest


def by_sweeps(x, rhs=None, *, omega=1.0, sweeps=1, tol=None, check_every=10):
    """Successive over-relaxation by the plain loop."""
    dtype = x.dtype.type
    result = np.array(x)
    sides = np.broadcast_to(0 if rhs is None else rhs, x.shape).astype(dtype, "C")
    for k in np.ndindex(x.shape[:-2]):
        for sweep in range(1, sweeps + 1):
            update = sweep_rows(result[k], sides[k], dtype(1 - omega), dtype(omega / 4))
            if tol is not None and sweep % check_every == 0 and update < tol:
                break
    return result


def same(result, wanted):
    assert result.dtype == wanted.dtype
    np.testing.assert_array_equal(result, wanted)


def in_thirds(function):
    """The function of Dask arrays that have three chunks along every axis."""

    def call(x, *given, **options):
        chunks = tuple(max(1, -(-length // 3)) for length in x.shape)
        lazy = da.from_array(x, chunks=chunks, asarray=False)
        result = function(lazy, *given, **options)
        assert isinstance(result, da.Array)
        assert result.chunks == lazy.chunks
        check_graph(result)
        return result.compute(scheduler="sync")

    return call


def on_cupy(function):
    """The function of CuPy arrays, which stay as they are."""

    def call(*arrays, **options):
        import cupy

        def move(value):
            if isinstance(value, tuple):
                return tuple(map(move, value))
            return cupy.asarray(value) if isinstance(value, np.ndarray) and value.ndim else value

        moved = [*map(move, arrays)]
        result = function(*moved, **{name: move(value) for name, value in options.items()})
        assert isinstance(result, cupy.ndarray)
        for given, array in zip(moved, arrays, strict=True):
            np.testing.assert_array_equal(given.get() if np.ndim(array) else given, array)
        return result.get()

    return call


def places_of(function):
    """Values of a parameter: the function of arrays of each kind."""
    return [
        pytest.param(function, id="numpy"),
        pytest.param(in_thirds(function), id="dask"),
        pytest.param(on_cupy(function), id="cupy", marks=pytest.mark.gpu),
        pytest.param(on_cupy(in_thirds(function)), id="dask of cupy", marks=pytest.mark.gpu),
    ]


def assert_is_table(result, x, axes=(-2, -1), dtype=None):
    """Integers to the bit; others within the bound that the docstring states."""
    wanted = cumsum_twice(x, axes, dtype)
    assert result.dtype == wanted.dtype
    if wanted.dtype.kind in "iu":
        np.testing.assert_array_equal(result, wanted)
        return
    wide = np.result_type(wanted, np.float64)
    exact, size = (cumsum_twice(values, axes) for values in (x.astype(wide), abs(x * 1.0)))
    steps = sum(x.shape[axis] for axis in axes)
    # The exact table is rounded too.
    bound = steps * np.finfo(wanted.dtype).eps / 2 * size * (2 if wanted.dtype == wide else 1)
    assert (abs(result - exact) <= bound).all()


def weights_of(shape, dtype="f8"):
    """Weights of a loop: an array, a row and a column."""
    *_, rows, columns = shape
    shapes = shape, (columns,), (rows, 1)
    return tuple((numbers(own, "f8", k, scale=5) / 9).astype(dtype) for k, own in enumerate(shapes, 1))


def loop_sizes(local, weights, operators=("+", "*"), **options):
    """W of the stated bound: the loop over what is finite, without signs."""
    pair = ("max" if operators[0] == "min" else operators[0], operators[1])
    borders = {name: sizes(options.pop(name, 0)) for name in ("above", "left", "corner")}
    given = {"weights": tuple(map(sizes, weights)), "operators": pair, **borders, **options}
    return mgrec.wavefront(sizes(local), **given)


def sizes(values):
    return np.abs(np.nan_to_num(np.asarray(values, "f8"), posinf=0, neginf=0))


def assert_is_near(result, wanted, size, axes=(-2, -1)):
    """The bound of compensation."""
    for is_special in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(is_special(result), is_special(wanted))
    at = np.isfinite(wanted)
    bound = 8 * sum(wanted.shape[k] for k in axes) * np.finfo(wanted.dtype).eps / 2 * size
    assert (abs(result[at].astype("f8") - wanted[at]) <= bound[at]).all()
