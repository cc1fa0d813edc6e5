"""Filters with resets: each segment is filtered as by a call of its own."""

from itertools import product

import dask.array as da
import numpy as np
import pytest
from graphs import fetched
from internals import begin_chunks
from scipy import signal

from mgrec.signal import ewm, lfilter, sosfilt

FILTERS = {
    "one": ([0.5], [1.0, -0.5]),
    "three": signal.butter(3, 0.2),
    "taps": ([1.0, 2.0, 0.5], [1.0]),
    "nothing": ([2.0], [1.0]),
}


def by_segments(solve, x, states, marks, axis):
    """SciPy's filter of each segment of each row; states are (count, *rows)."""
    y, last = np.empty(x.shape), np.empty_like(states)
    moved, out = np.moveaxis(x, axis, -1), np.moveaxis(y, axis, -1)
    full = np.moveaxis(np.broadcast_to(marks, x.shape), axis, -1)
    for row in np.ndindex(moved.shape[:-1]):
        begins = [0, *np.flatnonzero(full[row])]
        z = states[(slice(None), *row)]
        for begin, end in zip(begins, [*begins[1:], x.shape[axis]], strict=True):
            if end > begin or end == x.shape[axis]:
                out[row][begin:end], z = solve(moved[row][begin:end], states[(slice(None), *row)])
        last[(slice(None), *row)] = z
    return y, last


def draw(shape, axis, share, form):
    rng = np.random.default_rng(sum(shape))
    own = [1] * len(shape)
    own[axis] = shape[axis]
    marks = rng.random(own if form == "along" else shape) < share
    return rng.normal(size=shape), marks


def test_large_chunks_of_a_contractive_filter_do_not_speculate(monkeypatch):
    begin_chunks(monkeypatch)
    x, marks = draw((6000,), 0, 0.01, "full")
    wanted = lfilter([1.0], [1.0, -0.5], x, reset=marks)
    data = da.from_array(x, chunks=2000)
    y = lfilter([1.0], [1.0, -0.5], data, reset=da.from_array(marks, chunks=2000))
    np.testing.assert_allclose(y, wanted, atol=1e-12)


SHORT = [((200,), 0), ((3, 90), 1), ((90, 3), 0), ((2, 60, 3), 1)]
CASES = [
    *(pytest.param("host", *case, marks=pytest.mark.extended) for case in product(FILTERS, SHORT)),
    *(
        pytest.param("gpu", "three", case, marks=pytest.mark.gpu)
        for case in [((20_001,), 0), ((300, 7), 0), ((7, 300), 1)]
    ),
]


@pytest.mark.parametrize(("xp", "name", "case"), CASES, indirect=["xp"])
@pytest.mark.parametrize("form", ["along", "full"])
def test_segments_are_scipys(name, case, form, xp):
    (b, a), (shape, axis) = FILTERS[name], case
    x, marks = draw(shape, axis, 0.05, form)
    count = max(len(a), len(b)) - 1
    zi = np.random.default_rng(1).normal(size=(count, *np.delete(shape, axis)))

    def solve(part, z):
        return signal.lfilter(b, a, part, zi=z)

    wanted, last = by_segments(solve, x, zi, marks, axis)
    quiet, _ = by_segments(solve, x, 0 * zi, marks, axis)
    given, data, reset = np.moveaxis(zi, 0, axis), xp.asarray(x), xp.asarray(marks)
    chunks = tuple(13 if k == axis else 2 for k in range(len(shape)))
    for signal_ in (data, da.from_array(x, chunks=chunks)) if xp is np else (data,):
        y = fetched(lfilter(b, a, signal_, axis, reset=reset), xp)
        np.testing.assert_allclose(y, quiet, atol=1e-11)
        y, zf = lfilter(b, a, signal_, axis, zi=given, reset=reset)
        np.testing.assert_allclose(fetched(y, xp), wanted, atol=1e-11)
        np.testing.assert_allclose(np.moveaxis(fetched(zf, xp), axis, 0), last, atol=1e-11)


@pytest.mark.extended
def test_sections_and_labels():
    sos = signal.butter(6, 0.3, output="sos")
    x = np.random.default_rng(2).normal(size=(2, 300))
    labels = np.repeat([3, 1, 1, 4], 75)
    zi = np.random.default_rng(3).normal(size=(3, 2, 2))
    parts = [signal.sosfilt(sos, x[:, a:b], zi=zi) for a, b in ((0, 75), (75, 225), (225, 300))]
    for data in (x, da.from_array(x, chunks=(1, 80))):
        y, zf = sosfilt(sos, data, zi=zi, reset=labels)
        np.testing.assert_allclose(y, np.concatenate([part for part, _ in parts], 1), atol=1e-12)
        np.testing.assert_allclose(zf, parts[-1][1], atol=1e-12)


@pytest.mark.extended
@pytest.mark.parametrize("share", [0.001, 0.2])
def test_what_was_before_is_forgotten(share):
    b, a = FILTERS["three"]
    x, marks = draw((5000,), 0, share, "along")
    marks[[100, 2000]] = True
    x[50], x[1500] = np.nan, np.inf
    wanted, _ = by_segments(lambda part, z: signal.lfilter(b, a, part, zi=z), x, np.zeros((3,)), marks, 0)
    for data in (x, da.from_array(x, chunks=700)):
        y = np.asarray(lfilter(b, a, data, reset=marks))
        np.testing.assert_allclose(y, wanted, atol=1e-12)
        assert np.isnan(y).any()
        assert np.isfinite(y[2000:]).all()


@pytest.mark.extended
@pytest.mark.parametrize("dtype", ["f4", "c8", "i2"])
def test_dtypes_and_out(dtype):
    b, a = FILTERS["three"]
    x = np.arange(40).astype(dtype)
    marks = np.arange(40) % 7 == 3
    wanted = lfilter(b, a, x[3:10])
    y = lfilter(b, a, x, reset=marks)
    assert y.dtype == wanted.dtype
    np.testing.assert_allclose(y[3:10], wanted)
    out = np.empty_like(y)
    assert lfilter(b, a, x, reset=marks, out=out) is out
    np.testing.assert_array_equal(out, y)
    assert lfilter(b, a, x[:0], reset=marks[:0]).shape == (0,)


SOS = [[1, 0, 0, 1, -0.5, 0], [1, 1, 0, 1, 0, 0]]


@pytest.mark.parametrize(
    "call",
    [
        lambda x, **more: lfilter([1.0], [1.0, -0.5], x, 0, **more),
        lambda x, **more: sosfilt(SOS, x, 0, **more),
        lambda x, **more: ewm(x, alpha=0.3, axis=0, **more),
    ],
)
def test_results_are_chunked_like_x_whatever_marks_are(call):
    x, marks = draw((40, 6), 0, 0.2, "full")
    chunked = da.from_array(x, chunks=((7, 0, 20, 13), (4, 2)))
    for reset in (marks, marks[:, 0], np.cumsum(marks[:, 0])):
        y = call(chunked, reset=da.from_array(reset, chunks=13))
        assert y.chunks == chunked.chunks
        np.testing.assert_allclose(y.compute(scheduler="sync"), call(x, reset=reset), atol=1e-13)


@pytest.mark.parametrize("is_lazy", [False, True])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (32, 0, 4, 4)])
def test_segments_of_nothing(shape, is_lazy):
    x = da.zeros(shape, chunks=16) if is_lazy else np.zeros(shape)
    for axis in range(len(shape)):
        sections = (2, *shape[:axis], 2, *shape[axis + 1 :])
        zi = np.arange(np.prod(sections, dtype=int)).reshape(sections) * 1.0
        for marks in (np.zeros(shape[axis], bool), np.zeros(shape, bool)):
            y, zf = sosfilt(SOS, x, axis, zi=zi, reset=marks)
            assert np.asarray(y).shape == shape
            assert zf.shape == zi.shape
            if not shape[axis]:
                np.testing.assert_array_equal(zf, zi)
            assert lfilter([1.0], [1.0, -0.5], x, axis, reset=marks).shape == shape


def test_reset_of_other_shapes_is_refused():
    with pytest.raises(ValueError, match="reset must have shape"):
        lfilter([1.0], [1.0], np.ones(4), reset=np.ones(3, bool))
