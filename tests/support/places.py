"""Where arrays are: in memory, in chunks, on a GPU, and in chunks on a GPU."""

import dask.array as da
import numpy as np
import pytest


def as_numpy(array):
    return array


def in_chunks(array, axis=0, size=7):
    """A Dask array in chunks of `size` along an axis."""
    return da.from_array(array, chunks={axis: size})


def on_gpu(array):
    """A CuPy array; scalars stay where they are."""
    import cupy

    return cupy.asarray(array) if np.ndim(array) else array


def chunks_on_gpu(array, axis=0, size=7):
    return in_chunks(array, axis, size).map_blocks(on_gpu)


def beside(place):
    """The place of other arguments: on the GPU, if that of the steps is there."""
    return on_gpu if place in (on_gpu, chunks_on_gpu) else as_numpy


def assert_is_in(place, *arrays):
    """Assert that arrays are where a function of `PLACES` moves them."""
    for array in arrays:
        is_lazy = isinstance(array, da.Array)
        assert is_lazy == (place in (in_chunks, chunks_on_gpu))
        block = array.compute(scheduler="sync") if is_lazy else array
        assert hasattr(block, "get") == (beside(place) is on_gpu)


def from_gpu(array):
    """A NumPy array, where a CuPy array was wanted."""
    import cupy

    assert isinstance(array, cupy.ndarray)
    return array.get()


def to_host(array):
    """A NumPy array, from an array in any place."""
    array = array.compute(scheduler="sync") if isinstance(array, da.Array) else array
    return array.get() if hasattr(array, "get") else np.asarray(array)


MEMORIES = [as_numpy, pytest.param(on_gpu, marks=pytest.mark.gpu)]
PLACES = [*MEMORIES, in_chunks, pytest.param(chunks_on_gpu, marks=pytest.mark.gpu)]
each_memory = pytest.mark.parametrize("move", MEMORIES)
each_place = pytest.mark.parametrize("place", PLACES)
