"""Where arrays are: in memory, in chunks, on a GPU, and in chunks on a GPU."""

import dask
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
    """Assert that arrays are where a function of `PLACES` moves them; return NumPy arrays."""
    assert {isinstance(array, da.Array) for array in arrays} == {place in (in_chunks, chunks_on_gpu)}
    blocks = dask.compute(*arrays, scheduler="sync")
    assert {hasattr(block, "get") for block in blocks} == {beside(place) is on_gpu}
    return [*map(to_host, blocks)]


def from_gpu(array):
    """A NumPy array, where a CuPy array was wanted."""
    import cupy

    assert isinstance(array, cupy.ndarray)
    return array.get()


def to_host(array):
    """A NumPy array, from an array in any place."""
    array = array.compute(scheduler="sync") if isinstance(array, da.Array) else array
    return array.get() if hasattr(array, "get") else np.asarray(array)


def all_to_host(arrays):
    """NumPy arrays, from arrays in any place; what several need is computed once."""
    return [*map(to_host, dask.compute(*arrays, scheduler="sync"))]


MEMORIES = [as_numpy, pytest.param(on_gpu, marks=pytest.mark.gpu)]
PLACES = [*MEMORIES, in_chunks, pytest.param(chunks_on_gpu, marks=pytest.mark.gpu)]
each_memory = pytest.mark.parametrize("move", MEMORIES)
each_place = pytest.mark.parametrize("place", PLACES)
