"""Arrays and comparisons that the tests of recurrences over grids share."""

import dask.array as da
import numpy as np
from graphs import check_graph


def numbers(shape, dtype="f8", seed=0, scale=1):
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(dtype)


def cumsum_twice(x, axes=(-2, -1), dtype=None):
    return np.cumsum(np.cumsum(x, axes[1], dtype), axes[0], dtype)


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
