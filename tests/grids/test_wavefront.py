"""Wavefront loops: the bits of the loop of their docstring, however the grid is cut."""

import itertools

import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended
from grid_arrays import in_thirds, on_cupy, same
from grid_arrays import numbers as normal
from internals import divide_loops

import mgrec

pytestmark = [pytest.mark.quick, pytest.mark.usefixtures("narrow_strips")]

PAIRS = [("+", "*"), ("max", "+"), ("min", "+"), ("+", "+")]
UFUNCS = {"+": np.add, "*": np.multiply, "max": np.maximum, "min": np.minimum}
BORDERS = {"above": None, "left": None, "corner": None}


def border_of(name, dtype):
    if name not in ("max", "min"):
        return dtype.type(0)
    if dtype.kind == "f":
        return dtype.type({"max": -np.inf, "min": np.inf}[name])
    return dtype.type({"max": np.iinfo(dtype).min, "min": np.iinfo(dtype).max}[name] // 2)


@np.errstate(all="ignore")
def by_the_loop(local, weights, operators=("+", "*"), floor=None, **borders):
    """Over the last two axes, in NumPy scalars; batches are arrays of them."""
    accumulate, distribute = (UFUNCS[name] for name in operators)
    borders = BORDERS | borders
    values = [v for v in (*weights, *borders.values(), floor) if v is not None]
    dtype = np.result_type(local, *values)
    *batch, rows, columns = local.shape
    b0, b1, b2 = (np.broadcast_to(np.asarray(w, dtype), local.shape) for w in weights)
    a = np.full((*batch, rows + 1, columns + 1), border_of(operators[0], dtype))
    places = {"above": np.s_[..., 0, 1:], "left": np.s_[..., 1:, 0], "corner": np.s_[..., 0, 0]}
    for name, value in borders.items():
        if value is not None:
            a[places[name]] = value
    for i, j in itertools.product(range(rows), range(columns)):
        at = np.s_[..., i, j]
        value = accumulate(distribute(a[..., i + 1, j], b0[at]), distribute(a[..., i, j + 1], b1[at]))
        value = accumulate(value, distribute(a[..., i, j], b2[at]))
        value = accumulate(value, local[at].astype(dtype))
        a[..., i + 1, j + 1] = value if floor is None else np.maximum(value, dtype.type(floor))
    return a[..., 1:, 1:]


def numbers(shape, dtype="f8", seed=0):
    return normal(shape, dtype, seed, scale=5)


def on_threads(local, **options):
    """Three threads, tiles of at most 7 by 9."""
    with pytest.MonkeyPatch.context() as patch:
        divide_loops(patch)
        return mgrec.wavefront(local, **options)


def by_tiles(local, **options):
    """The strategy that has the bits of the loop on a GPU."""
    return mgrec.wavefront(local, **{"strategy": "tiles", **options})


# Several strips on a GPU.
PLACES = [
    pytest.param(mgrec.wavefront, (20, 27), id="numpy"),
    pytest.param(on_threads, (20, 27), id="threads"),
    pytest.param(in_thirds(mgrec.wavefront), (20, 27), id="dask"),
    pytest.param(on_cupy(by_tiles), (37, 70), id="cupy", marks=pytest.mark.gpu),
    pytest.param(on_cupy(in_thirds(by_tiles)), (37, 70), id="dask of cupy", marks=pytest.mark.gpu),
]
each_place = pytest.mark.parametrize(("place", "shape"), PLACES)
each_pair = pytest.mark.parametrize("operators", with_extended(PAIRS, *PAIRS[2:]), ids="".join)


def weights_of(shape, dtype="f8"):
    """An array, a row and a column."""
    *_, rows, columns = shape
    shapes = shape, (columns,), (rows, 1)
    return tuple((numbers(own, "f8", k) / 9).astype(dtype) for k, own in enumerate(shapes, 1))


@each_place
@each_pair
def test_all_operators_and_weights(operators, place, shape):
    local = numbers(shape)
    for weights in (weights_of(local.shape), (0.5, -0.25, 1)):
        for floor in (None, 0.0):
            result = place(local, weights=weights, operators=operators, floor=floor)
            same(result, by_the_loop(local, weights, operators, floor))


@pytest.mark.extended
@each_place
@pytest.mark.parametrize("dtype", ["f4", "i4", "i8"])
@pytest.mark.parametrize("operators", PAIRS, ids="".join)
def test_every_dtype(dtype, operators, place, shape):
    local = numbers((2, *shape), dtype)
    weights = weights_of(local.shape, dtype)
    for options in ({}, {"above": 3, "floor": -2}):
        result = place(local, weights=weights, operators=operators, **options)
        same(result, by_the_loop(local, weights, operators, **options))


@pytest.mark.emulated
@each_place
def test_borders_and_batches(place, shape):
    rows, columns = shape
    local = numbers((2, 3, *shape))
    weights = numbers((3, 1, 1), seed=1), 0.5, numbers((2, 1, *shape), seed=2) / 9
    borders = {
        "above": numbers((2, 1, columns), seed=3),
        "left": numbers(rows, seed=4),
        "corner": numbers((2, 3), seed=5),
    }
    same(place(local, weights=weights, **borders), by_the_loop(local, weights, **borders))
    for name, value in borders.items():
        given = {name: value}
        same(place(local, weights=weights, **given), by_the_loop(local, weights, **given))


@each_place
@pytest.mark.parametrize("axes", [(0, 1), (2, 0), (-1, 1)])
def test_every_pair_of_axes(axes, place, shape):
    local, weight = numbers((7, 8, 9)), numbers((7, 8, 9), seed=1) / 9
    down, right = (axis % 3 for axis in axes)
    above = numbers([n for k, n in enumerate(local.shape) if k != down], seed=2)
    result = place(local, weights=(weight, 0.5, -0.25), above=above, left=2.0, axes=axes)
    moved, own = (np.moveaxis(array, axes, (-2, -1)) for array in (local, weight))
    above = np.moveaxis(above, right - (right > down), -1)
    wanted = by_the_loop(moved, (own, 0.5, -0.25), above=above, left=2.0)
    same(result, np.moveaxis(wanted, (-2, -1), axes))


@each_place
def test_nan_and_inf_stand_where_the_loop_has_them(place, shape):
    local = numbers(shape)
    local[4, 7], local[10, 3], local[15, 20] = np.nan, np.inf, -np.inf
    for operators in PAIRS[:2]:
        for floor in (None, 0.0):
            result = place(local, weights=(0.5, -0.5, 1), operators=operators, floor=floor)
            same(result, by_the_loop(local, (0.5, -0.5, 1), operators, floor))


@each_place
@pytest.mark.parametrize("name", with_extended(["max", "min"], "min"))
def test_of_equal_zeros_the_first_is_taken(name, place, shape):
    left, local = (np.copysign(0.0, numbers(n, seed=k)) for k, n in enumerate((shape[0], shape)))
    result = place(local, weights=(-0.0,) * 3, operators=(name, "+"), left=left)
    assert len(set(np.signbit(left))) == 2
    same(np.signbit(result), np.broadcast_to(np.signbit(left)[:, None], result.shape))


def test_the_order_of_operations_shows():
    """What same() compares tells the loop from the paper's compensation: rows, then a scan."""
    local, (b0, b1, b2) = numbers((20, 20)), (0.3, 0.2, 0.1)
    rows, above = [], np.zeros(20)
    for row in local:
        terms = above * b1 + np.append(0, above[:-1]) * b2 + row
        above = terms + mgrec.weighted_scan(terms, b0)
        rows.append(above)
    wanted = by_the_loop(local, (b0, b1, b2))
    np.testing.assert_allclose(rows, wanted, rtol=1e-12, atol=1e-12)
    assert (rows != wanted).any()


def test_the_loops_of_the_paper():
    """Sums over rectangles, and Smith-Waterman."""
    local = np.rint(numbers((30, 40)))
    table = mgrec.wavefront(local, weights=(1, 1, -1))
    same(table, mgrec.summed_area_table(local))
    one, other = (np.random.default_rng(k).integers(0, 4, 60) for k in range(2))
    scores = np.where(one[:, None] == other, 3.0, -3.0)
    pairs = {"operators": ("max", "+"), "floor": 0, "above": 0, "left": 0, "corner": 0}
    lowest = np.full_like(scores, -1e6)
    table = mgrec.wavefront(lowest, weights=(-2, -2, scores), **pairs)
    wanted = mgrec.smith_waterman(one, other, match=3, mismatch=-3, gap=-2)
    assert table.max() == wanted.score
    assert table[wanted.query_end, wanted.target_end] == wanted.score


@each_place
def test_own_operators(place, shape):
    local, weights = numbers(shape, "i8"), weights_of(shape, "i8")
    own = (lambda a, b: a ^ b), (lambda a, b: a & b)
    borders = {"above": 0, "left": 1, "corner": numbers((), "i8", 4)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(UFUNCS, "^", np.bitwise_xor)
        patch.setitem(UFUNCS, "&", np.bitwise_and)
        wanted = by_the_loop(local, weights, ("^", "&"), **borders)
    same(place(local, weights=weights, operators=own, **borders), wanted)


@pytest.mark.extended
def test_an_own_operator_beside_a_named_one():
    local, weights = numbers((20, 27)), weights_of((20, 27))
    for own in (("max", lambda a, b: a + b), (lambda a, b: np.maximum(a, b), "+")):
        given = {"above": -1.0, "left": 2.0, "corner": 0.5}
        result = mgrec.wavefront(local, weights=weights, operators=own, **given)
        same(result, mgrec.wavefront(local, weights=weights, operators=("max", "+"), **given))
    result = refused(operators=(lambda a, b: min(a, b),) * 2, above=2.0, left=2.0, corner=2.0)
    same(result, np.ones((3, 4)))


def test_own_operators_must_distribute():
    def smaller(a, b):
        return min(a, b)

    for local in (np.ones((3, 4)), np.ones((3, 4), int)):
        for pair in ((smaller, "*"), ("+", smaller)):
            with pytest.raises(ValueError, match=r"operators must be such that .* for a, b, c = "):
                refused(local=local, operators=pair)


def test_lazy_weights():
    local, weights = numbers((20, 30)), weights_of((20, 30))
    lazy = [da.from_array(weight, chunks=7) for weight in weights]
    result = mgrec.wavefront(local, weights=tuple(lazy)).compute(scheduler="sync")
    same(result, by_the_loop(local, weights))


def refused(**given):
    options = {"local": np.ones((3, 4)), "weights": (1, 1, 1)} | given
    return mgrec.wavefront(options.pop("local"), **options)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"local": np.ones(3)}, ValueError, "local must have two axes or more; got shape"),
        ({"local": np.ones((3, 4), "c8")}, TypeError, "must promote to int32.*; got complex64"),
        ({"local": np.ones((3, 4), "c16")}, TypeError, "must promote to int32"),
        ({"local": None}, TypeError, "local must be of an integer"),
        ({"weights": 1}, ValueError, "weights must be a tuple of three, b0, b1 and b2; got int"),
        ({"weights": (1, 1)}, ValueError, "weights must be a tuple of three.*; got 2"),
        ({"weights": (1, None, 1)}, TypeError, r"weights\[1\] must be of .* \(None\)"),
        ({"weights": (1, 1, np.ones(3))}, ValueError, r"weights\[2\] must broadcast to \(3, 4\)"),
        ({"operators": ("max", "*")}, ValueError, "operators must be one of"),
        ({"operators": (max, "+")}, ValueError, "each a plain Python function of two numbers"),
        ({"operators": (lambda a: a, "+")}, ValueError, "each a plain Python function of two"),
        ({"operators": (lambda a, b: a + b, "*")}, ValueError, "above must be an array or a number if ◇"),
        ({"above": np.ones(3)}, ValueError, r"above must broadcast to \(4,\); got shape \(3,\)"),
        ({"left": np.ones(4)}, ValueError, r"left must broadcast to \(3,\)"),
        ({"corner": np.ones(2)}, ValueError, r"corner must broadcast to \(\)"),
        ({"floor": np.nan}, ValueError, "floor must be a real number or None; got nan"),
        ({"floor": "0"}, TypeError, "floor must be a real number or None"),
        ({"axes": (0, 0)}, ValueError, "axes must be different axes"),
        ({"axes": 1}, ValueError, "axes must be two axes"),
    ],
)
def test_what_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        refused(**given)
