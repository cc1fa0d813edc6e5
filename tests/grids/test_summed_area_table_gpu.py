"""Summed-area tables of CuPy arrays, against NumPy's cumulative sums."""

import dask.array as da
import numpy as np
import pytest
from grid_arrays import assert_is_table, cumsum_twice, numbers
from places import from_gpu, on_gpu

import mgrec

pytestmark = pytest.mark.gpu

DTYPES = [
    *((dtype, None) for dtype in ("?", "u1", "i2", "u4", "i8", "f4", "f8", "c8", "c16")),
    ("f4", "f8"),
    ("u1", "u1"),
    ("i8", "i1"),
    ("u1", "c16"),
    ("f8", "f4"),
    ("u4", "c8"),
]
# One strip, strips down and to the right, of whole words and not; waves of more than a GPU holds.
SHAPES = [
    (1, 1),
    (3, 700),
    (5, 3),
    (64, 64),
    (2, 65, 127),
    (300, 16_384),
    (131, 17_001),
    (5000, 1024),
    (20_000, 3),
    (5000, 1023),
    (1000, 64, 64),
    (300, 9, 9),
    (200, 65, 130),
    (9, 40_000),
]


def check(result, x, axes=(-2, -1), dtype=None):
    assert_is_table(from_gpu(result), x, axes, dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_shape(shape):
    for dtype, summed in (("f4", None), ("u1", np.int32), ("u1", None)):
        x = numbers(shape, dtype, scale=90)
        check(mgrec.summed_area_table(on_gpu(x), dtype=summed), x, dtype=summed)


@pytest.mark.parametrize(("dtype", "summed"), DTYPES)
def test_every_dtype(dtype, summed):
    for shape in ((130, 17_000), (2000, 515), (3, 40, 50)):
        x = numbers(shape, dtype, scale=90)
        check(mgrec.summed_area_table(on_gpu(x), dtype=summed), x, dtype=summed)


@pytest.mark.parametrize("axes", [(-2, -1), (0, 1), (2, 1), (0, 2)])
def test_axes_and_strides(axes):
    x = numbers((70, 300, 43), "f4", scale=90)
    given = on_gpu(x)
    check(mgrec.summed_area_table(given, axes), x, axes)
    for part in (np.s_[:, 1::2, 3:], np.s_[::-1], np.s_[..., ::3], np.s_[1:, 1:, 1:]):
        check(mgrec.summed_area_table(given[part], axes), x[part], axes)


def test_integral_volumes():
    x = numbers((20, 30, 70), "u1", scale=90)
    found = mgrec.summed_area_table(on_gpu(x), (0, 1, 2))
    np.testing.assert_array_equal(from_gpu(found), cumsum_twice(x).cumsum(0))


def test_nan_and_inf_stand_where_the_loop_has_them():
    for shape in [(300, 17_000), (3000, 300)]:
        for values in ([np.inf], [-np.inf, np.inf], [np.nan]):
            x = numbers(shape, "f4", scale=90)
            for number, value in enumerate(values):
                x[200 - 100 * number, 250 - 90 * number] = value
            with np.errstate(invalid="ignore"):
                wanted = cumsum_twice(x)
            result = from_gpu(mgrec.summed_area_table(on_gpu(x)))
            for same in (np.isnan, np.isposinf, np.isneginf):
                np.testing.assert_array_equal(same(result), same(wanted))


@pytest.mark.parametrize("dtype", ["u1", "f4"])
@pytest.mark.parametrize(
    "chunks", [(200, 300), (500, 64), pytest.param((77, 1000), marks=pytest.mark.emulated)]
)
def test_dask_arrays_of_cupy(chunks, dtype):
    x = numbers((500, 700), dtype, scale=90)
    lazy = mgrec.summed_area_table(da.from_array(on_gpu(x), chunks=chunks))
    assert lazy.chunks == da.from_array(x, chunks=chunks).chunks
    result = lazy.compute(scheduler="sync")
    check(result, x)


@pytest.mark.hardware
def test_more_than_2_to_the_31_numbers():
    cupy, shape = pytest.importorskip("cupy"), (2**16 + 3, 2**15 + 1)
    x = cupy.ones(shape, "u1")
    table = mgrec.summed_area_table(x, dtype=np.uint32)
    rows = cupy.arange(1, shape[0] + 1, dtype="u4")[:, None]
    columns = cupy.arange(1, shape[1] + 1, dtype="u4")
    for begin in range(0, shape[0], 4096):
        part = slice(begin, begin + 4096)
        assert bool((table[part] == rows[part] * columns).all())
