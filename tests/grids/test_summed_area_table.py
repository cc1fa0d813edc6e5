"""Summed-area tables: ``numpy.cumsum`` along one axis, then the other, to the bit."""

import cv2
import dask.array as da
import numpy as np
import pytest
import skimage
from chunkings import chunkings
from graphs import check_graph
from hypothesis import given
from hypothesis import strategies as st

import mgrec

pytestmark = pytest.mark.quick

DTYPES = ("?", "u1", "i2", "u4", "i8", "f4", "f8", "c16")
AXES = [(-2, -1), (0, 2), (2, 1)]


def cumsum_twice(x, axes=(-2, -1), dtype=None):
    return np.cumsum(np.cumsum(x, axes[1], dtype), axes[0], dtype)


def numbers(shape, dtype, seed=0):
    return (np.random.default_rng(seed).normal(size=shape) * 90).astype(dtype)


def on_numpy(x, *given, **options):
    return mgrec.summed_area_table(x, *given, **options)


def on_dask(x, *given, **options):
    chunks = tuple(max(1, -(-length // 3)) for length in x.shape)
    lazy = mgrec.summed_area_table(da.from_array(x, chunks=chunks), *given, **options)
    assert isinstance(lazy, da.Array)
    assert lazy.chunks == da.from_array(x, chunks=chunks).chunks
    check_graph(lazy)
    return lazy.compute(scheduler="sync")


def same(result, wanted):
    assert result.dtype == wanted.dtype
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("place", [on_numpy, on_dask])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype, place):
    x = numbers((3, 17, 23), dtype)
    same(place(x), cumsum_twice(x))


@pytest.mark.parametrize("dtype", ["u1", "f4"])
@pytest.mark.parametrize("shape", [(401, 503), (3, 301, 202), (1, 2, 70_000), (70_000, 1)])
@pytest.mark.parametrize("threads", [2, 3])
def test_threads_add_up_in_the_same_order(threads, shape, dtype, eager_threads, monkeypatch):
    monkeypatch.setenv("MGREC_NUM_THREADS", str(threads))
    x = numbers(shape, dtype)
    same(on_numpy(x), cumsum_twice(x))


@pytest.mark.parametrize("place", [on_numpy, on_dask])
@pytest.mark.parametrize("axes", AXES)
def test_every_pair_of_axes(axes, place):
    x = numbers((7, 8, 9), "f8")
    same(place(x, axes), cumsum_twice(x, axes))


@pytest.mark.parametrize("place", [on_numpy, on_dask])
@pytest.mark.parametrize("dtype", ["u1", "f8", pytest.param("c16", marks=pytest.mark.extended)])
@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 0, 1), (3, 1, 0, 2)])
def test_integral_volumes(axes, dtype, place):
    x = numbers((4, 5, 6, 3), dtype)
    wanted, size = x, abs(x)
    for axis in reversed(axes):
        wanted, size = wanted.cumsum(axis), size.cumsum(axis)
    found = place(x, axes)
    assert found.dtype == wanted.dtype
    bound = 0 if dtype == "u1" else 4 * sum(x.shape) * np.finfo(dtype).eps / 2 * size
    assert (abs(found - wanted) <= bound).all()


@pytest.mark.parametrize("place", [on_numpy, on_dask])
@pytest.mark.parametrize("special", [np.inf, np.nan])
def test_special_values_of_complex_volumes_stand_where_cumsum_has_them(special, place):
    x = numbers((4, 5, 6, 3), "c16")
    x[1, 2, 3, 1] = special
    wanted = x
    with np.errstate(invalid="ignore"):
        for axis in (2, 1, 0):
            wanted = wanted.cumsum(axis)
        found = place(x, (0, 1, 2))
    np.testing.assert_allclose(found, wanted)
    out = np.empty_like(x)
    if place is on_numpy:
        assert place(x, (0, 1, 2), out=out) is out
        np.testing.assert_array_equal(out, found)


@pytest.mark.parametrize("place", [on_numpy, on_dask])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (1, 1), (1, 5), (5, 1), (0, 2, 3)])
def test_small_and_empty(shape, place):
    x = numbers(shape, "f8")
    same(place(x), cumsum_twice(x))


def test_the_order_of_sums_shows():
    """What same() compares tells the two orders of addition apart."""
    x = numbers((40, 40), "f4")
    assert (cumsum_twice(x) != cumsum_twice(x, (-1, -2))).any()


@given(st.data())
def test_any_chunks_give_the_same_bits(data):
    x = numbers((13, 11), "f4", data.draw(st.integers(0, 99)))
    chunks = data.draw(chunkings(13)), data.draw(chunkings(11))
    lazy = mgrec.summed_area_table(da.from_array(x, chunks=chunks))
    assert lazy.chunks == chunks
    same(lazy.compute(scheduler="sync"), cumsum_twice(x))


def test_strided_read_only_and_nan():
    x = numbers((30, 30), "f8")
    x[4, 7] = np.nan
    x.flags.writeable = False
    for view in (x[::-2, 1::3], x.T, x[:, ::-1]):
        same(mgrec.summed_area_table(view), cumsum_twice(view))


def test_the_dtype_of_sums():
    x = numbers((5, 6), "u1")
    same(mgrec.summed_area_table(x, dtype="u1"), cumsum_twice(x, dtype="u1"))
    same(on_dask(x, dtype=np.float32), cumsum_twice(x, dtype=np.float32))


def test_out():
    x = numbers((5, 6), "f8")
    out = np.full((5, 6), np.nan)
    assert mgrec.summed_area_table(x, out=out) is out
    same(out, cumsum_twice(x))
    x, out = numbers((3, 5, 6), "i8"), np.full((3, 5, 6), -1)
    assert mgrec.summed_area_table(x, (1, 0, 2), out=out) is out
    same(out, cumsum_twice(x).cumsum(0))
    with pytest.raises(ValueError, match="out must have shape"):
        mgrec.summed_area_table(x, (1, 0, 2), out=out[1:])


def test_a_tile_waits_for_its_neighbours_alone():
    """No task of the last row of tiles but the last one knows of the last column."""
    lazy = mgrec.summed_area_table(da.ones((6, 6), chunks=2))
    graph = dict(lazy.__dask_graph__())
    name = lazy.name

    def behind(key):
        return {key}.union(*(behind(each) for each in graph[key].dependencies))

    tiles = {key[1:] for key in behind((name, 2, 0)) if key[0] != name}
    assert tiles == {(0, 0), (1, 0), (2, 0)}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: mgrec.summed_area_table(np.ones(3)), ValueError, "two axes or more; got shape"),
        (lambda: mgrec.summed_area_table(np.ones((3, 3)), (0, 0)), ValueError, "must be different"),
        (
            lambda: mgrec.summed_area_table(np.ones((3, 3)), 1),
            ValueError,
            "two axes or more; got 1",
        ),
        (lambda: mgrec.summed_area_table(np.ones((3, 3)), (0, 1, 0)), ValueError, "different axes"),
        (lambda: mgrec.summed_area_table(np.ones((3, 3)), (0, 2)), ValueError, "axis must be"),
        (lambda: mgrec.summed_area_table(np.ones((3, 3), "f2")), TypeError, "got float16"),
        (lambda: mgrec.summed_area_table([["a"]]), TypeError, "x must be bool, integer"),
        (lambda: mgrec.summed_area_table(np.ones((3, 3)), dtype=int), TypeError, "dtype must be"),
        (
            lambda: mgrec.summed_area_table(da.ones((3, 3)), out=np.ones((3, 3))),
            TypeError,
            "out must be None",
        ),
        (
            lambda: mgrec.summed_area_table(np.ones((3, 3)), out=np.ones((3, 4))),
            ValueError,
            "out must have shape",
        ),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("place", [on_numpy, on_dask])
@pytest.mark.parametrize("name", ["astronaut", "camera", "coins"])
def test_images_as_in_scikit_image_and_opencv(name, place):
    image = getattr(skimage.data, name)()
    # scikit-image sums over the colours too, OpenCV one by one and with a border.
    whole = place(image, tuple(range(image.ndim))).astype("f8")
    same(whole, skimage.transform.integral_image(image, dtype="f8"))
    same(place(image, (0, 1)).astype("i4"), cv2.integral(image)[1:, 1:])
