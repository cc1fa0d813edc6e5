"""Summed-area tables: ``numpy.cumsum`` along one axis, then the other, to the bit."""

import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended
from grid_arrays import cumsum_twice, in_thirds, numbers, same
from internals import divide_among_threads

import mgrec

DTYPES = ("?", "u1", "i2", "u4", "i8", "f4", "f8", "c16")
AXES = [(-2, -1), (0, 2), (2, 1)]


PLACES = [mgrec.summed_area_table, in_thirds(mgrec.summed_area_table)]
each_place = pytest.mark.parametrize("place", PLACES, ids=["numpy", "dask"])


@each_place
# Others are widened to the dtype of sums as u1 is, and compiled for themselves.
@pytest.mark.parametrize("dtype", with_extended(DTYPES, "?", "i2", "u4", "i8"))
def test_every_dtype(dtype, place):
    x = numbers((3, 17, 23), dtype, scale=90)
    same(place(x), cumsum_twice(x))


@pytest.mark.parametrize("dtype", ["u1", "f4"])
@pytest.mark.parametrize("shape", [(401, 503), (3, 301, 202), (1, 2, 70_000), (70_000, 1)])
@pytest.mark.parametrize("threads", [2, 3])
def test_threads_add_up_in_the_same_order(threads, shape, dtype, monkeypatch):
    divide_among_threads(monkeypatch, 1 << 12)
    monkeypatch.setenv("MGREC_NUM_THREADS", str(threads))
    x = numbers(shape, dtype, scale=90)
    same(mgrec.summed_area_table(x), cumsum_twice(x))


@pytest.mark.parametrize("dtype", ["u1", "f8"])
@pytest.mark.parametrize("start", [0, 3])
def test_tables_at_any_address(start, dtype):
    x = numbers((70, 200), dtype, scale=90)
    wanted = cumsum_twice(x)
    out = np.empty(start + x.size, wanted.dtype)[start:].reshape(x.shape)
    same(mgrec.summed_area_table(x, out=out), wanted)


@each_place
@pytest.mark.parametrize("axes", AXES)
def test_every_pair_of_axes(axes, place):
    x = numbers((7, 8, 9), "f8", scale=90)
    same(place(x, axes), cumsum_twice(x, axes))


@each_place
@pytest.mark.parametrize("dtype", ["u1", "f8", "c16"])
@pytest.mark.parametrize("axes", with_extended([(0, 1, 2), (2, 0, 1), (3, 1, 0, 2)], (2, 0, 1), (3, 1, 0, 2)))
def test_integral_volumes(axes, dtype, place):
    x = numbers((4, 5, 6, 3), dtype, scale=90)
    wanted, size = x, abs(x)
    for axis in reversed(axes):
        wanted, size = wanted.cumsum(axis), size.cumsum(axis)
    found = place(x, axes)
    assert found.dtype == wanted.dtype
    bound = 0 if dtype == "u1" else 4 * sum(x.shape) * np.finfo(dtype).eps / 2 * size
    assert (abs(found - wanted) <= bound).all()


@pytest.mark.extended
@each_place
@pytest.mark.parametrize("special", [np.inf, np.nan])
def test_special_values_of_complex_volumes_stand_where_cumsum_has_them(special, place):
    x = numbers((4, 5, 6, 3), "c16", scale=90)
    x[1, 2, 3, 1] = special
    wanted = x
    with np.errstate(invalid="ignore"):
        for axis in (2, 1, 0):
            wanted = wanted.cumsum(axis)
        found = place(x, (0, 1, 2))
    np.testing.assert_allclose(found, wanted)
    out = np.empty_like(x)
    if place is mgrec.summed_area_table:
        assert place(x, (0, 1, 2), out=out) is out
        np.testing.assert_array_equal(out, found)


def test_the_order_of_sums_shows():
    """What same() compares tells the two orders of addition apart."""
    x = numbers((40, 40), "f4", scale=90)
    assert (cumsum_twice(x) != cumsum_twice(x, (-1, -2))).any()


def test_the_dtype_of_sums():
    x = numbers((5, 6), "u1", scale=90)
    same(mgrec.summed_area_table(x, dtype="u1"), cumsum_twice(x, dtype="u1"))
    same(PLACES[1](x, dtype=np.float32), cumsum_twice(x, dtype=np.float32))


@pytest.mark.parametrize("dtype", ["i8", "c16"])
def test_volumes_into_out(dtype):
    x = numbers((3, 5, 6), dtype, scale=90).round()
    out = np.full_like(x, -1)
    assert mgrec.summed_area_table(x, (1, 0, 2), out=out) is out
    same(out, cumsum_twice(x).cumsum(0))
    with pytest.raises(ValueError, match="out must have shape"):
        mgrec.summed_area_table(x, (1, 0, 2), out=out[1:])
    with pytest.raises(ValueError, match="share memory"):
        mgrec.summed_area_table(x, (1, 0, 2), out=x)


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
    ("x", "options", "error", "message"),
    [
        (np.ones(3), {}, ValueError, "two axes or more; got shape"),
        (np.ones((3, 3)), {"axes": (0, 0)}, ValueError, "must be different"),
        (np.ones((3, 3)), {"axes": 1}, ValueError, "two axes or more; got 1"),
        (np.ones((3, 3)), {"axes": (0, 1, 0)}, ValueError, "different axes"),
        (np.ones((3, 3)), {"axes": (0, 2)}, ValueError, "each of axes must be from -2"),
        (np.zeros((3, 3), "M8[s]"), {}, TypeError, "got datetime64"),
        ([["a"]], {}, TypeError, "x must be bool, integer"),
        (np.ones((3, 3)), {"dtype": int}, TypeError, "dtype must be"),
    ],
)
def test_what_is_refused(x, options, error, message):
    with pytest.raises(error, match=message):
        mgrec.summed_area_table(x, **options)


@each_place
@pytest.mark.parametrize("name", ["astronaut", "camera", "coins"])
def test_images_as_in_scikit_image_and_opencv(name, place):
    cv2, skimage = map(pytest.importorskip, ("cv2", "skimage"))
    image = getattr(skimage.data, name)()
    # scikit-image sums over the colours too, OpenCV one by one and with a border.
    whole = place(image, tuple(range(image.ndim))).astype("f8")
    same(whole, skimage.transform.integral_image(image, dtype="f8"))
    same(place(image, (0, 1)).astype("i4"), cv2.integral(image)[1:, 1:])
