"""Summed-area tables of CuPy arrays, against NumPy's cumulative sums."""

import dask.array as da
import numpy as np
import pytest

import mgrec

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
pytestmark = pytest.mark.gpu

DTYPES = ("?", "u1", "i2", "u4", "i8", "f4", "f8", "c8", "c16")
# One strip, strips down and to the right, of whole words and not; waves of more than a GPU holds.
SHAPES = [
    (1, 1), (3, 700), (5, 3), (64, 64), (2, 65, 127), (300, 16_384), (131, 17_001), (5000, 1024),
    (20_000, 3), (5000, 1023), (1000, 64, 64), (300, 9, 9), (200, 65, 130), (9, 40_000),
]  # fmt: skip


def numbers(shape, dtype, seed=0):
    return (np.random.default_rng(seed).normal(size=shape) * 90).astype(dtype)


def cumsum_twice(x, axes=(-2, -1), dtype=None):
    return np.cumsum(np.cumsum(x, axes[1], dtype), axes[0], dtype)


def check(result, x, axes=(-2, -1), dtype=None):
    """Integers to the bit; others within the bound that the docstring states."""
    result, wanted = result.get(), cumsum_twice(x, axes, dtype)
    assert result.dtype == wanted.dtype
    if wanted.dtype.kind in "iu":
        np.testing.assert_array_equal(result, wanted)
        return
    wide = wanted.astype(np.result_type(wanted, np.float64))
    if wide.dtype != wanted.dtype:
        wide = cumsum_twice(x.astype(wide.dtype), axes)
    steps = sum(x.shape[axis] for axis in axes)
    # The wanted table is rounded as well.
    bound = (
        2 * steps * np.finfo(wanted.dtype).eps / 2 * cumsum_twice(abs(x.astype(wide.dtype)), axes)
    )
    assert (abs(result - wide) <= bound).all()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_shape(shape):
    for dtype, summed in (("f4", None), ("u1", np.int32), ("u1", None)):
        x = numbers(shape, dtype)
        check(mgrec.summed_area_table(cupy.asarray(x), dtype=summed), x, dtype=summed)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype):
    for shape in ((130, 17_000), (2000, 515), (3, 40, 50)):
        x = numbers(shape, dtype)
        check(mgrec.summed_area_table(cupy.asarray(x)), x)


@pytest.mark.parametrize("axes", [(-2, -1), (0, 1), (2, 1), (0, 2)])
def test_axes_and_strides(axes):
    x = numbers((70, 300, 43), "f4")
    given = cupy.asarray(x)
    check(mgrec.summed_area_table(given, axes), x, axes)
    for part in (np.s_[:, 1::2, 3:], np.s_[::-1], np.s_[..., ::3], np.s_[1:, 1:, 1:]):
        check(mgrec.summed_area_table(given[part], axes), x[part], axes)


def test_integral_volumes():
    x = numbers((20, 30, 70), "u1")
    found = mgrec.summed_area_table(cupy.asarray(x), (0, 1, 2))
    np.testing.assert_array_equal(found.get(), cumsum_twice(x).cumsum(0))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 2, 3)])
def test_nothing_to_add(shape):
    check(mgrec.summed_area_table(cupy.zeros(shape)), np.zeros(shape))


def test_out():
    x = numbers((500, 700), "f4")
    out = cupy.full(x.shape, np.nan, "f4")
    assert mgrec.summed_area_table(cupy.asarray(x), out=out) is out
    check(out, x)


@pytest.mark.parametrize("shape", [(2000, 20_000), (20_000, 2000), (20_000, 40, 40)], ids=str)
def test_the_same_input_gives_the_same_bits(shape):
    x = cupy.random.default_rng(1).standard_normal(shape, dtype="f4")
    first = mgrec.summed_area_table(x)
    for _ in range(20):
        assert bool((mgrec.summed_area_table(x) == first).all())


def test_nan_and_inf_stand_where_the_loop_has_them():
    for shape in [(300, 17_000), (3000, 300)]:
        for values in ([np.inf], [-np.inf, np.inf], [np.nan]):
            x = numbers(shape, "f4")
            for number, value in enumerate(values):
                x[200 - 100 * number, 250 - 90 * number] = value
            with np.errstate(invalid="ignore"):
                wanted = cumsum_twice(x)
            result = mgrec.summed_area_table(cupy.asarray(x)).get()
            for same in (np.isnan, np.isposinf, np.isneginf):
                np.testing.assert_array_equal(same(result), same(wanted))


def test_streams_have_sums_of_their_own():
    x = cupy.asarray(numbers((3000, 1030), "u1"))
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
    cupy.cuda.get_current_stream().synchronize()
    found = []
    for number in range(20):
        with streams[number % 4]:
            found.append(mgrec.summed_area_table(x, dtype=np.int32))
    cupy.cuda.Device().synchronize()
    for table in found:
        check(table, x.get(), dtype=np.int32)


@pytest.mark.parametrize("dtype", ["u1", "f4"])
@pytest.mark.parametrize("chunks", [(200, 300), (500, 64), (77, 1000)])
def test_dask_arrays_of_cupy(chunks, dtype):
    x = numbers((500, 700), dtype)
    lazy = mgrec.summed_area_table(da.from_array(cupy.asarray(x), chunks=chunks))
    assert lazy.chunks == da.from_array(x, chunks=chunks).chunks
    result = lazy.compute(scheduler="sync")
    assert isinstance(result, cupy.ndarray)
    check(result, x)


def test_more_than_2_to_the_31_numbers():
    shape = (2**16 + 3, 2**15 + 1)
    x = cupy.ones(shape, "u1")
    table = mgrec.summed_area_table(x, dtype=np.uint32)
    rows = cupy.arange(1, shape[0] + 1, dtype="u4")[:, None]
    columns = cupy.arange(1, shape[1] + 1, dtype="u4")
    for begin in range(0, shape[0], 4096):
        part = slice(begin, begin + 4096)
        assert bool((table[part] == rows[part] * columns).all())


@pytest.mark.parametrize(("shape", "is_alone"), [((1000, 1000), False), ((50, 60, 60), True)])
def test_a_graph_captures_images_of_one_strip_alone(shape, is_alone):
    x = cupy.ones(shape, "f4")
    out, wanted = cupy.empty_like(x), mgrec.summed_area_table(x)
    cupy.cuda.get_current_stream().synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        mgrec.summed_area_table(x, out=out)
        stream.synchronize()
        stream.begin_capture()
        try:
            if is_alone:
                mgrec.summed_area_table(x, out=out)
            else:
                with pytest.raises(RuntimeError, match="cannot be captured into a CUDA graph"):
                    mgrec.summed_area_table(x, out=out)
        finally:
            graph = stream.end_capture()
        for _ in range(2 * is_alone):
            out.fill(np.nan)
            graph.launch(stream)
            stream.synchronize()
            assert bool((out == wanted).all())
