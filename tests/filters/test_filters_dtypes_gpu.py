"""Kernels read samples of any real dtype: the bits of samples cast before, without their memory."""

import dask.array as da
import numpy as np
import pytest
from scipy import signal
from test_filters import POLYNOMIALS, UNSTABLE, sections
from test_filters_dtypes import same_bits, samples, widened

from mgrec.signal import lfilter, sosfilt

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
pytestmark = pytest.mark.gpu

LAYOUTS = [
    ((100_003,), 0), ((3, 40_001), 1), ((20_001, 3), 0), ((3_001, 40), 0), ((2, 3_000, 17), 1),
    ((4, 40_000), 1), ((1,), 0), ((0, 3), 0),
]  # fmt: skip


def displaced(x, count):
    """A copy that begins `count` samples after a multiple of 16 bytes."""
    space = cupy.empty(x.size + count, x.dtype)
    view = space[count:].reshape(x.shape)
    view[...] = cupy.asarray(x)
    return view


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [("i1", "f8"), ("u1", "f4"), ("i2", "f8"), ("i2", "f4"), ("u2", "f4"), ("i4", "f8"),
     ("u4", "f8"), ("i8", "f8"), ("u8", "f8"), ("f2", "f8"), ("f2", "f4"), ("f4", "f8"),
     ("?", "f8")],
)  # fmt: skip
def test_samples_are_cast_as_numpy_casts_them(dtype, kind):
    b, a = (np.asarray(part, kind) for part in POLYNOMIALS["order 2"])
    # Each layout is a program of its own.
    for shape, axis in LAYOUTS if dtype in ("i2", "f4") else (LAYOUTS[0], LAYOUTS[3]):
        x = samples(shape, dtype)
        wanted = lfilter(b, a, cupy.asarray(widened(x, kind)), axis)
        for count in (0, 1, 3):
            assert same_bits(lfilter(b, a, displaced(x, count), axis), wanted)


@pytest.mark.parametrize("dtype", ["i2", "f4"])
@pytest.mark.parametrize("name", ["order 12", "FIR", "gain"])
def test_every_kind_of_filter_reads_samples_as_they_are(name, dtype):
    b, a = POLYNOMIALS[name]
    for shape, axis in (LAYOUTS[1], LAYOUTS[2]):
        x = samples(shape, dtype)
        wanted = lfilter(b, a, cupy.asarray(widened(x)), axis)
        assert same_bits(lfilter(b, a, cupy.asarray(x), axis), wanted)


@pytest.mark.parametrize("dtype", ["i2", "f4"])
def test_sections_read_samples_as_they_are(dtype):
    sos = sections(8)
    for shape, axis in LAYOUTS[:4]:
        x = samples(shape, dtype)
        y = sosfilt(sos, cupy.asarray(x), axis)
        assert same_bits(y, sosfilt(sos, cupy.asarray(widened(x)), axis))
        wanted = signal.sosfilt(sos, widened(x), axis)
        np.testing.assert_allclose(y.get(), wanted, rtol=0, atol=1e-9 * np.abs(wanted).max())


def test_layouts():
    b, a = POLYNOMIALS["order 2"]
    x = cupy.asarray(samples((300, 40, 6), "i2"))
    for view in (x.transpose(2, 1, 0), x[::3], x[:, ::-1], x[1:, 1:, 1:]):
        wanted = lfilter(b, a, cupy.ascontiguousarray(view).astype(float), 0)
        assert same_bits(lfilter(b, a, view, 0), wanted)


@pytest.mark.parametrize("dtype", ["i2", "f4"])
@pytest.mark.parametrize("name", UNSTABLE)
def test_overflow_is_where_it_was(name, dtype):
    b, a = UNSTABLE[name]
    x = cupy.asarray(samples((4000,), dtype))
    for make in (lambda x: x, lambda x: da.from_array(x, chunks=700, asarray=False)):
        assert same_bits(lfilter(b, a, make(x)), lfilter(b, a, make(x.astype(float))))


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


@pytest.mark.parametrize("dtype", ["i2", "f4"])
def test_no_copy_of_the_samples_is_made(dtype):
    b, a = POLYNOMIALS["order 2"]
    samples_ = cupy.ones(2**25, dtype)
    result = 2**25 * np.dtype(float).itemsize
    assert peak(lambda: lfilter(b, a, samples_)) <= 1.01 * result
    assert peak(lambda: lfilter(b, a, samples_[1:])) <= 1.01 * result
    assert peak(lambda: lfilter(b, a, samples_.astype(float))) > 1.9 * result
