"""What holds for each recurrence over a grid."""

import dask.array as da
import numpy as np
import pytest
from chunkings import chunkings
from grid_arrays import by_sweeps, cumsum_twice, in_thirds, numbers, same
from hypothesis import given
from hypothesis import strategies as st
from internals import record_encodings
from test_wavefront import by_the_loop, weights_of

import mgrec
from mgrec.grids.alignment.cpu import profiles

SWEEPS = {"omega": 1.2, "sweeps": 7, "tol": 0.3, "check_every": 2}
# The function, and the loop, of an array alone.
FUNCTIONS = {
    "sor": (
        lambda x, **out: mgrec.sor(x, numbers(x.shape[-2:], seed=1), **SWEEPS, **out),
        lambda x: by_sweeps(x, numbers(x.shape[-2:], seed=1), **SWEEPS),
    ),
    "summed_area_table": (mgrec.summed_area_table, cumsum_twice),
    "wavefront": (
        lambda x, **out: mgrec.wavefront(x, weights=weights_of(x.shape), above=3.0, **out),
        lambda x: by_the_loop(x, weights_of(x.shape), above=3.0),
    ),
}
each_function = pytest.mark.parametrize(("function", "loop"), FUNCTIONS.values(), ids=FUNCTIONS)


@each_function
@pytest.mark.parametrize(
    "shape", [(0, 3), (3, 0), (0, 0), (1, 1), (1, 9), (9, 1), (0, 2, 3), (0, 4, 4), (4, 0, 0)]
)
def test_small_and_empty(shape, function, loop):
    x = numbers(shape)
    for call in (function, in_thirds(function)):
        same(call(x), loop(x))


@each_function
@given(data=st.data())
def test_any_chunks_give_the_same_bits(function, loop, data):
    x = numbers((2, 13, 11), seed=data.draw(st.integers(0, 99)))
    chunks = tuple(data.draw(chunkings(length)) for length in x.shape)
    lazy = function(da.from_array(x, chunks=chunks))
    assert lazy.chunks == chunks
    same(lazy.compute(scheduler="sync"), loop(x))


@each_function
def test_views_and_byte_orders(function, loop):
    x = numbers((30, 40))
    x[4, 7] = np.nan
    for view in (x[::-2, 1::3], x.T, x[:, ::-1], x.astype(">f8")):
        view.flags.writeable = False
        for call in (function, in_thirds(function)):
            same(call(view), loop(view.astype(float)))


@each_function
def test_out(function, loop):
    x = numbers((30, 40))
    out = np.full_like(x, np.nan)
    assert function(x, out=out) is out
    same(out, loop(x))
    same(x, numbers((30, 40)))
    with pytest.raises(ValueError, match="out must have shape"):
        function(x, out=np.ones((3, 4)))
    with pytest.raises(TypeError, match="out must be None"):
        function(da.from_array(x), out=out)


def test_alignments_of_few_cells_compile_one_kernel(monkeypatch):
    """Of scores of two bytes: a score of 255 does not fit into one."""
    encodings = record_encodings(monkeypatch)
    letters = np.arange(300)
    scores = {"match": 1, "mismatch": -1, "gap": -1}
    assert mgrec.smith_waterman(letters, letters, **scores).score == 300
    assert encodings == ["int16"]
    monkeypatch.setattr(profiles, "MIN_CELLS_OF_BYTES", 300**2)
    mgrec.smith_waterman(letters % 100, letters % 100, **scores)
    assert encodings[1:] == ["int8", "int16"]
