"""Weighted scans: what the loop of their docstring gives."""

import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended
from graphs import check_graph

import mgrec

PAIRS = [("+", "*"), ("max", "+"), ("min", "+"), ("+", "+")]
UFUNCS = {"+": np.add, "*": np.multiply, "max": np.maximum, "min": np.minimum}


def by_the_loop(x, weights, operators, axis=-1, inclusive=False):
    accumulate, distribute = (UFUNCS[name] for name in operators)
    dtype = np.result_type(x, weights)
    x, w = (np.moveaxis(a.astype(dtype), axis, 0) for a in np.broadcast_arrays(x, weights))
    b, c = np.empty_like(x), x.copy()
    for j in range(1, len(x)):
        b[j] = distribute(c[j - 1], w[j])
        c[j] = accumulate(b[j], x[j])
    low, high = (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    b[:1] = {"+": 0, "max": low, "min": high}[operators[0]]
    return np.moveaxis(c if inclusive else b, 0, axis)


def numbers(shape, dtype="f8", seed=0):
    return (np.random.default_rng(seed).normal(size=shape) * 9).astype(dtype)


def on_dask(x, weights, **options):
    chunks = tuple(max(1, -(-length // 3)) for length in x.shape)
    lazy = mgrec.weighted_scan(da.from_array(x, chunks=chunks), weights, **options)
    assert isinstance(lazy, da.Array)
    if np.shape(weights) in ((), x.shape):
        assert lazy.chunks == da.from_array(x, chunks=chunks).chunks
    check_graph(lazy)
    return lazy.compute(scheduler="sync")


def on_gpu(x, weights, **options):
    import cupy

    given = [cupy.asarray(v) if np.ndim(v) else v for v in (x, weights)]
    return mgrec.weighted_scan(*given, **options).get()


def check(place, x, weights, operators, **options):
    """Compare exclusive and inclusive scans with the loop."""
    for inclusive in (False, True):
        result = place(x, weights, operators=operators, inclusive=inclusive, **options)
        wanted = by_the_loop(x, weights, operators, inclusive=inclusive, **options)
        assert result.dtype == wanted.dtype
        tolerance = {"f4": 1e-4, "f8": 1e-12}.get(wanted.dtype.str[1:], 0)
        np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance)


each_place = pytest.mark.parametrize("place", [mgrec.weighted_scan, on_dask], ids=["numpy", "dask"])
each_pair = pytest.mark.parametrize("operators", with_extended(PAIRS, PAIRS[2]), ids="".join)


@each_place
@each_pair
def test_array_and_constant_weights(operators, place):
    x, weights = numbers((3, 40)), numbers((3, 40), seed=1) / 20
    for given in (weights, weights[1], weights[:, :1], -1):
        check(place, x, given, operators)


@pytest.mark.extended
@each_place
@each_pair
def test_every_dtype_and_axis(operators, place):
    for shape in ((2, 9), (0, 3), (0,)):
        for dtype in ("f4", "i8", "u1", "i2"):
            check(place, (numbers(shape) % 10).astype(dtype), 1, operators)
    for axis in (0, 1, -1):
        weights = numbers((4, 5, 3), seed=1) / 20
        check(place, numbers((4, 5, 3)), weights, operators, axis=axis)


@each_place
@each_pair
@pytest.mark.parametrize("shape", [(0,), (1,), (2,), (0, 3), (3, 0)])
def test_small_and_empty(shape, operators, place):
    check(place, numbers(shape), 2, operators)


@each_place
@pytest.mark.parametrize("operators", with_extended(PAIRS[1:3], PAIRS[2]), ids="".join)
def test_the_first_weight_of_integers_does_not_wrap_around(operators, place):
    for first in (-90, 90):
        check(place, np.array([-100, 3, 5], "i1"), np.array([first, 1, 1], "i1"), operators)


@each_pair
def test_the_first_weight_counts_for_nothing_and_the_others_do(operators):
    x, weights = numbers(5), numbers(5, seed=1)
    wanted = mgrec.weighted_scan(x, weights, operators=operators)
    others = np.array([7.0, *weights[1:]])
    np.testing.assert_array_equal(mgrec.weighted_scan(x, others, operators=operators), wanted)
    others = np.array([*weights[:4], 7.0])
    assert mgrec.weighted_scan(x, others, operators=operators)[4] != wanted[4]


@each_pair
def test_lazy_weights_of_other_chunks(operators):
    def lazily(x, weights, **options):
        given = da.from_array(x, chunks=(3, 7)), da.from_array(weights, chunks=4)
        return mgrec.weighted_scan(*given, **options).compute(scheduler="sync")

    def by_lazy_weights(x, weights, **options):
        lazy = mgrec.weighted_scan(x, da.full(x.shape, weights), **options)
        return lazy.compute(scheduler="sync")

    x = numbers((6, 20))
    check(lazily, x, numbers((6, 20), seed=1) / 9, operators)
    for part in (x, x[:, :1], x[:, :0]):
        check(by_lazy_weights, part, 2.0, operators)


@each_pair
def test_out(operators):
    def into(x, weights, **options):
        out = np.full(x.shape, np.nan)
        assert mgrec.weighted_scan(x, weights, out=out, **options) is out
        return out

    check(into, numbers((3, 8)), 0.5, operators)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: mgrec.weighted_scan(x, 1, operators=("*", "+")), ValueError, "operators must"),
        (lambda x: mgrec.weighted_scan(x, 1, operators="+*"), ValueError, "operators must be one"),
        (lambda x: mgrec.weighted_scan(x, 1, axis=1), ValueError, "axis must be from"),
        (lambda x: mgrec.weighted_scan(x, 1, inclusive=1), TypeError, "inclusive must be True"),
        (lambda x: mgrec.weighted_scan(x, np.ones(4)), ValueError, "shapes must broadcast"),
        (lambda x: mgrec.weighted_scan(x, None), TypeError, "weights must be of an integer"),
        (lambda x: mgrec.weighted_scan(1.0, 2.0), ValueError, "at least one of x, weights must be an array"),
        (
            lambda x: mgrec.weighted_scan(x, 1j, operators=("max", "+")),
            TypeError,
            "must be real for operators",
        ),
        (
            lambda x: mgrec.weighted_scan(x.astype("u1"), -1, operators=("+", "+")),
            ValueError,
            "weights must be representable in uint8; got -1",
        ),
        (lambda x: mgrec.weighted_scan(x, 1, out=np.ones(4)), ValueError, "out must have shape"),
        (lambda x: mgrec.weighted_scan(x, 1, out=x), ValueError, "out must not share memory"),
        (lambda x: mgrec.weighted_scan(da.from_array(x), 1, out=np.ones(3)), TypeError, "out must be None"),
        (
            lambda x: mgrec.weighted_scan(da.ones(3)[da.ones(3) > 0], x[0]),
            ValueError,
            "x and weights must be in chunks of known sizes",
        ),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(np.ones(3))


@pytest.mark.gpu
@pytest.mark.parametrize("operators", PAIRS)
@pytest.mark.parametrize("dtype", ["i8", "f8"])
def test_numbers_and_arrays_on_a_gpu(dtype, operators):
    x, w = numbers((4, 50), dtype), numbers((4, 50), dtype, 1) // 9
    for operand, weights in ((x, w), (x, w.dtype.type(1)), (x.dtype.type(2), w)):
        check(on_gpu, operand, weights, operators)
