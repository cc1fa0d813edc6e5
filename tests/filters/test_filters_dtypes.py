"""Samples of a narrower dtype than the results give the bits that they give when cast before.

Kernels on a GPU read them without the memory of a cast.
"""

import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended
from scipy import signal
from test_filters import GPU, POLYNOMIALS, UNSTABLE, assert_same, in_chunks, sections

from mgrec.signal import lfilter, sosfilt

try:
    import cupy
except ImportError:  # Tests of a GPU are skipped.
    cupy = None

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
        part.compute(scheduler="sync") if isinstance(part, da.Array) else part for part in (have, want)
    )
    assert have.dtype == want.dtype
    return have.shape == want.shape and have.tobytes() == want.tobytes()


@pytest.mark.parametrize("kind", with_extended([np.float32, np.float64], np.float32))
@pytest.mark.parametrize("dtype", DTYPES)
def test_samples_are_cast_as_numpy_casts_them(dtype, kind):
    b, a = (np.asarray(part, kind) for part in POLYNOMIALS["order 2"])
    sos = sections(3).astype(kind)
    for shape, axis in SHAPES:
        x = samples(shape, dtype)
        y = lfilter(b, a, x, axis)
        assert same_bits(y, lfilter(b, a, widened(x, kind), axis))
        assert same_bits(sosfilt(sos, x, axis), sosfilt(sos, widened(x, kind), axis))
        if x.size and x.dtype.kind != "b":
            assert_same([y], [signal.lfilter(b, a, widened(x, kind), axis)])
    chunked = in_chunks(samples((70, 20), dtype))
    assert same_bits(lfilter(b, a, chunked, 0), lfilter(b, a, widened(chunked, kind), 0))


def test_a_sample_cast_otherwise_is_noticed():
    x = samples((300,), "i2")
    assert not same_bits(lfilter([1.0], [1.0], x.view("u2")), lfilter([1.0], [1.0], widened(x)))


@pytest.mark.parametrize(
    ("xp", "name", "dtype"),
    [
        ("host", "complex poles", "i2"),
        *(pytest.param("gpu", n, t, marks=GPU) for n in UNSTABLE for t in ("i2", "f4")),
    ],
    indirect=["xp"],
)
def test_overflow_is_where_it_was(name, dtype, xp):
    b, a = UNSTABLE[name]
    x = xp.asarray(samples((4000,), dtype))
    for make in (lambda x: x, lambda x: da.from_array(x, chunks=700, asarray=False)):
        assert same_bits(lfilter(b, a, make(x)), lfilter(b, a, make(x.astype(float))))


def test_threads_cast_their_own_parts(monkeypatch):
    monkeypatch.setenv("MGREC_NUM_THREADS", "2")
    for shape, axis in (((400_000,), 0), ((2, 100_000), 1)):
        x = samples(shape, "i2")
        b, a = POLYNOMIALS["order 2"]
        assert same_bits(lfilter(b, a, x, axis), lfilter(b, a, widened(x), axis))


LAYOUTS = [
    ((100_003,), 0),
    ((3, 40_001), 1),
    ((20_001, 3), 0),
    ((3_001, 40), 0),
    ((2, 3_000, 17), 1),
    ((4, 40_000), 1),
    ((1,), 0),
    ((0, 3), 0),
]


def displaced(x, count):
    """A copy that begins `count` samples after a multiple of 16 bytes."""
    space = cupy.empty(x.size + count, x.dtype)
    view = space[count:].reshape(x.shape)
    view[...] = cupy.asarray(x)
    return view


@GPU
@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        ("i1", "f8"),
        ("u1", "f4"),
        ("i2", "f8"),
        ("i2", "f4"),
        ("u2", "f4"),
        ("i4", "f8"),
        ("u4", "f8"),
        ("i8", "f8"),
        ("u8", "f8"),
        ("f2", "f8"),
        ("f2", "f4"),
        ("f4", "f8"),
        ("?", "f8"),
    ],
)
def test_samples_are_cast_on_a_gpu_as_numpy_casts_them(dtype, kind):
    b, a = (np.asarray(part, kind) for part in POLYNOMIALS["order 2"])
    # Each layout is a program of its own.
    for shape, axis in LAYOUTS if dtype in ("i2", "f4") else (LAYOUTS[0], LAYOUTS[3]):
        x = samples(shape, dtype)
        wanted = lfilter(b, a, cupy.asarray(widened(x, kind)), axis)
        for count in (0, 1, 3):
            assert same_bits(lfilter(b, a, displaced(x, count), axis), wanted)


@GPU
@pytest.mark.parametrize("dtype", ["i2", "f4"])
@pytest.mark.parametrize("name", ["order 12", "FIR", "gain", "sections"])
def test_every_kind_of_filter_reads_samples_as_they_are(name, dtype):
    is_sections = name == "sections"
    solve, scipys = (sosfilt, signal.sosfilt) if is_sections else (lfilter, signal.lfilter)
    filter_ = (sections(8),) if is_sections else POLYNOMIALS[name]
    for shape, axis in LAYOUTS[:4] if is_sections else LAYOUTS[1:3]:
        x = samples(shape, dtype)
        y = solve(*filter_, cupy.asarray(x), axis)
        assert same_bits(y, solve(*filter_, cupy.asarray(widened(x)), axis))
        wanted = scipys(*filter_, widened(x), axis)
        np.testing.assert_allclose(y.get(), wanted, rtol=0, atol=1e-9 * np.abs(wanted).max())


@GPU
def test_layouts_on_a_gpu():
    b, a = POLYNOMIALS["order 2"]
    x = cupy.asarray(samples((300, 40, 6), "i2"))
    for view in (x.transpose(2, 1, 0), x[::3], x[:, ::-1], x[1:, 1:, 1:]):
        wanted = lfilter(b, a, cupy.ascontiguousarray(view).astype(float), 0)
        assert same_bits(lfilter(b, a, view, 0), wanted)


@GPU
@pytest.mark.parametrize("dtype", ["f2", "f4"])
def test_special_values_stand_where_they_stood(dtype):
    x = samples((2, 60_000), dtype)
    x[0, [20_000, 41_111]], x[1, 33_333] = (np.inf, np.nan), -np.inf
    x[:, 50_000:] = 0
    x = cupy.asarray(x)
    for name in ("order 2", "order 12", "FIR"):
        b, a = POLYNOMIALS[name]
        have, want = lfilter(b, a, x), lfilter(b, a, x.astype(float))
        # Which nan it is depends on who cast it.
        assert (cupy.isnan(have) == cupy.isnan(want)).all()
        assert same_bits(*(cupy.where(cupy.isnan(y), 0, y) for y in (have, want)))


def peak(call):
    """Bytes of the most memory that CuPy took."""
    pool = cupy.cuda.MemoryPool()
    with cupy.cuda.using_allocator(pool.malloc):
        call()
        return pool.total_bytes()


@GPU
@pytest.mark.hardware
@pytest.mark.parametrize("dtype", ["i2", "f4"])
def test_no_copy_of_the_samples_is_made(dtype):
    b, a = POLYNOMIALS["order 2"]
    samples_ = cupy.ones(2**25, dtype)
    result = 2**25 * np.dtype(float).itemsize
    assert peak(lambda: lfilter(b, a, samples_)) <= 1.01 * result
    assert peak(lambda: lfilter(b, a, samples_[1:])) <= 1.01 * result
    assert peak(lambda: lfilter(b, a, samples_.astype(float))) > 1.9 * result
