"""Samples of a narrower dtype than the results give the bits that they give when cast before."""

import dask.array as da
import numpy as np
import pytest
from scipy import signal
from test_filters import POLYNOMIALS, UNSTABLE, assert_same, in_chunks, sections

from mgrec.core.arrays.chunk import Chunk
from mgrec.filters.cascade import Cascade
from mgrec.filters.cpu.one_thread import precompute_filter, propagate_filter
from mgrec.signal import lfilter, sosfilt

DTYPES = ["i1", "u1", "i2", ">i2", "u2", "i4", "i8", "u8", "f2", "f4", "?"]
SHAPES = [((300,), 0), ((3, 70), 1), ((70, 3), 0), ((90, 20), 0), ((20,), 0), ((0,), 0)]


def samples(shape, dtype, seed=7):
    rng, dtype = np.random.default_rng(seed), np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind == "f":
        return rng.normal(size=shape).astype(dtype)
    range_ = np.iinfo(dtype)
    return rng.integers(range_.min, range_.max, shape, dtype.newbyteorder("="), True).astype(dtype)


def widened(x, like=np.float64):
    return x.astype(np.result_type(x, like))


def same_bits(have, want):
    have, want = (
        part.compute(scheduler="sync") if isinstance(part, da.Array) else part
        for part in (have, want)
    )
    assert have.dtype == want.dtype
    return have.shape == want.shape and have.tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_samples_are_cast_as_numpy_casts_them(dtype):
    for kind in (np.float32, np.float64):
        b, a = (np.asarray(part, kind) for part in POLYNOMIALS["order 2"])
        sos = sections(2).astype(kind)
        for shape, axis in SHAPES:
            x = samples(shape, dtype)
            y = lfilter(b, a, x, axis)
            assert same_bits(y, lfilter(b, a, widened(x, kind), axis))
            assert same_bits(sosfilt(sos, x, axis), sosfilt(sos, widened(x, kind), axis))
            if x.size and x.dtype.kind != "b":
                assert_same([y], [signal.lfilter(b, a, widened(x, kind), axis)])
    chunked = in_chunks(samples((70, 20), dtype))
    assert same_bits(lfilter(b, a, chunked, 0), lfilter(b, a, widened(chunked), 0))


def test_a_sample_cast_otherwise_is_noticed():
    x = samples((300,), "i2")
    assert not same_bits(lfilter([1.0], [1.0], x.view("u2")), lfilter([1.0], [1.0], widened(x)))


def test_overflow_is_where_it_was():
    b, a = UNSTABLE["complex poles"]
    x = samples((4000,), "i2")
    for make in (lambda x: x, lambda x: da.from_array(x, chunks=700)):
        assert same_bits(lfilter(b, a, make(x)), lfilter(b, a, make(widened(x))))


def test_a_chunk_that_comes_along_has_its_own_dtype_and_the_same_states():
    cascade = Cascade.of_polynomials(*UNSTABLE["complex poles"])
    x, carry_in = samples((1, 500, 1), "i2"), np.ones((2, 1, 1))
    narrow, wide = (
        precompute_filter(cascade, Chunk((part,), x.shape, np.dtype(float)))
        for part in (x, widened(x))
    )
    assert narrow.redo.operands[0].dtype == np.int16
    assert same_bits(narrow.offset, wide.offset)
    assert same_bits(propagate_filter(narrow, carry_in), propagate_filter(wide, carry_in))


def test_threads_cast_their_own_parts(monkeypatch):
    monkeypatch.setenv("MGREC_NUM_THREADS", "2")
    for shape, axis in (((400_000,), 0), ((2, 100_000), 1)):
        x = samples(shape, "i2")
        b, a = POLYNOMIALS["order 2"]
        assert same_bits(lfilter(b, a, x, axis), lfilter(b, a, widened(x), axis))
