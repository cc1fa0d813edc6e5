"""Arrays and comparisons that the tests of recurrences over grids share."""

import dask.array as da
import numba
import numpy as np
from graphs import check_graph


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
    sides = np.broadcast_to(0 if rhs is None else rhs, x.shape).astype(dtype)
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
        lazy = da.from_array(x, chunks=tuple(max(1, -(-length // 3)) for length in x.shape))
        result = function(lazy, *given, **options)
        assert isinstance(result, da.Array)
        assert result.chunks == lazy.chunks
        check_graph(result)
        return result.compute(scheduler="sync")

    return call
