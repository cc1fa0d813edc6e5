"""Public functions take DataArrays, aligned by name, and return DataArrays."""

from collections import namedtuple

import dask.array as da
import numpy as np
import pytest

import mgrec
from mgrec.signal import decimate, ewm, filtfilt, lfilter, sosfilt, sosfiltfilt

xr = pytest.importorskip("xarray")

DAYS, PLACES = 40, 3
DAY = np.datetime64("2026-01-01") + np.arange(DAYS)
B, A, SOS = [0.2, 0.1], [1.0, -0.7], [[0.2, 0.1, 0.0, 1.0, -0.7, 0.1]] * 2
_numbers = np.random.default_rng(5)
RAIN = xr.DataArray(
    _numbers.uniform(0.1, 0.9, (PLACES, DAYS)),
    {"place": list("abc"), "day": DAY},
    ("place", "day"),
    name="rain",
    attrs={"units": "mm", "source": "drawn"},
)
KEPT = xr.DataArray([0.5, 0.6, 0.7], {"place": list("abc")}, "place", name="kept", attrs={"source": "drawn"})
MONTH = RAIN.day.dt.month
R, K = RAIN.values, KEPT.values[:, None]


def assert_like(found, values, name="rain", attrs=RAIN.attrs):
    assert (found.dims, found.name, found.attrs) == (RAIN.dims, name, attrs)
    xr.testing.assert_identical(found.coords.to_dataset(), RAIN.coords.to_dataset())
    np.testing.assert_array_equal(found.values, values)


def test_operands_are_aligned_by_name():
    """The name is kept where all operands have it, attributes where they agree."""
    common = {"units": "mm", "source": "drawn"}
    found = mgrec.linear_recurrence(KEPT, RAIN, dim="day")
    assert_like(found, mgrec.linear_recurrence(K, R), None, common)
    turned = mgrec.linear_recurrence(RAIN.T, RAIN, KEPT, axis=0).transpose("place", "day")
    assert_like(turned, mgrec.linear_recurrence(R, R, KEPT.values))


def test_dimensions_have_names():
    """Of every axis; the only dimension needs none."""
    wanted = mgrec.linear_recurrence(K, R)
    for call in (
        lambda f, *x, **axis: f(*x, dim="day", **axis),
        lambda f, *x, **axis: f(*x, axis="day", **axis),
        lambda f, *x, **axis: f(*x, axis=-1, **axis),
    ):
        np.testing.assert_array_equal(call(mgrec.linear_recurrence, KEPT, RAIN).values, wanted)
        assert call(decimate, RAIN, 4, 2).day.equals(RAIN.day[::4])
    np.testing.assert_array_equal(mgrec.linear_recurrence(0.5, RAIN[0])[-1], [*wanted[0]][-1])
    areas = mgrec.summed_area_table(RAIN)
    assert mgrec.summed_area_table(RAIN, dims=("place", "day")).equals(areas)
    assert mgrec.summed_area_table(RAIN, axes=("place", "day")).equals(areas)
    members = mgrec.linear_recurrence(OTHER, RAIN, dim="day")
    assert members.dims == ("place", "day", "member")


def test_numbers_and_arrays_may_stand_beside():
    assert_like(mgrec.linear_recurrence(0.5, RAIN, axis="day"), mgrec.linear_recurrence(0.5, R))
    assert_like(mgrec.linear_recurrence(K, RAIN, K[:, 0], axis=1), mgrec.linear_recurrence(K, R, K[:, 0]))
    assert isinstance(mgrec.linear_recurrence(xr.DataArray(0.5), R), np.ndarray)
    assert isinstance(ewm(R, halflife="5D", times=RAIN.day), np.ndarray)


def test_attributes_and_names_are_those_that_xarray_keeps():
    other = KEPT.rename("rain").assign_attrs(units="1")
    assert mgrec.linear_recurrence(other, RAIN, dim="day").attrs == {"source": "drawn"}
    with xr.set_options(keep_attrs=False):
        found = mgrec.linear_recurrence(other, RAIN, dim="day")
    assert (found.name, found.attrs) == ("rain", {})


def test_what_is_chunked_stays_lazy():
    lazy = RAIN.chunk(day=7)
    found = mgrec.linear_recurrence(KEPT.chunk(place=2), lazy, dim="day")
    assert isinstance(found.data, da.Array)
    assert found.chunks == lazy.chunks
    np.testing.assert_allclose(found.values, mgrec.linear_recurrence(K, R), rtol=1e-13)


def test_states_of_filters_have_the_dimensions_of_rows():
    y, zf = lfilter(B, A, RAIN, dim="day", zi=KEPT.expand_dims(order=1))
    wanted = lfilter(B, A, R, zi=K)
    assert_like(y, wanted[0])
    assert zf.dims == ("place", "order")
    assert list(zf.coords) == ["place"]
    np.testing.assert_array_equal(zf.values, wanted[1])
    again, _ = lfilter(B, A, RAIN, dim="day", zi=zf)
    assert_like(again, lfilter(B, A, R, zi=wanted[1])[0])


CALLS = {
    "rational": lambda r, k, row: mgrec.rational_recurrence(r, k, 1.0, 2.0, row, axis=-1),
    "scan": lambda r, k, row: mgrec.scan(mgrec.maps.max_plus, r, k, initial=row, axis=-1),
    "a Coefficient": lambda r, k, row: mgrec.linear_recurrence(
        mgrec.Coefficient(lambda i, x: x / (i + 1), k), r, row, axis=-1
    ),
    "weighted_scan": lambda r, k, row: mgrec.weighted_scan(r, k, axis=-1),
    "lfilter": lambda r, k, row: lfilter(B, A, r, axis=-1),
    "sosfilt": lambda r, k, row: sosfilt(SOS, r, axis=-1),
    "filtfilt": lambda r, k, row: filtfilt(B, A, r, axis=-1),
    "sosfiltfilt": lambda r, k, row: sosfiltfilt(SOS, r, axis=-1, padlen=2),
    "ewm": lambda r, k, row: ewm(r, span=5, other=r, statistic="cov", axis=-1),
    "solve_tridiagonal": lambda r, k, row: mgrec.solve_tridiagonal(r, r + 3, k, r, axis=-1),
    "solve_banded": lambda r, k, row: mgrec.solve_banded((1, 0), np.stack([R[0] + 3, R[1]]), r, axis=-1),
    "factor_tridiagonal": lambda r, k, row: mgrec.factor_tridiagonal(r, r + 3, k, axis=-1).solve(r),
    "summed_area_table": lambda r, k, row: mgrec.summed_area_table(r),
    "sor": lambda r, k, row: mgrec.sor(r, r, sweeps=2),
    "wavefront": lambda r, k, row: mgrec.wavefront(r, weights=(0.3, k, r), left=row, corner=0.0, above=r[0]),
}


@pytest.mark.extended
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("chunks", [None, {"day": 15, "place": -1}])
def test_every_function(name, chunks):
    call, data = CALLS[name], RAIN if chunks is None else RAIN.chunk(chunks)
    found = call(data, KEPT, KEPT)
    assert found.chunks == data.chunks
    wanted = call(R if chunks is None else data.data, K, KEPT.values)
    assert (found.dims, found.attrs["source"]) == (RAIN.dims, "drawn")
    np.testing.assert_array_equal(found.values, np.asarray(wanted))


def test_steps_have_times_and_marks():
    found = ewm(RAIN.T, halflife="5D", times=RAIN.day, axis=0).T
    assert_like(found, ewm(R, halflife="5D", times=DAY))
    marked = mgrec.linear_recurrence(1, RAIN, dim="day", reset=MONTH)
    assert_like(marked, mgrec.linear_recurrence(1, R, reset=MONTH.values))


@pytest.mark.extended
def test_several_states_are_several_arrays():
    given = (0.1, 0.1, 0.5, 0.0, 0.0)
    wanted = mgrec.scan(mgrec.maps.matrix2, R, *given, initial=(KEPT.values, 1.0))
    for initial in ((KEPT, 1.0), namedtuple("State", "p q")(KEPT, 1.0)):
        found = mgrec.scan(mgrec.maps.matrix2, RAIN, *given, dim="day", initial=initial)
        for own, values in zip(found, wanted, strict=True):
            assert_like(own, values)


@pytest.mark.extended
def test_states_of_sections():
    zi = xr.DataArray(np.ones((2, 2)), dims=("section", "state"))
    y, zf = sosfilt(SOS, RAIN.T, 0, zi=zi)
    wanted = sosfilt(SOS, R.T, 0, zi=np.ones((2, 2, PLACES)))
    np.testing.assert_array_equal(y.values, wanted[0])
    assert zf.dims == ("section", "state", "place")
    np.testing.assert_array_equal(zf.values, wanted[1])


@pytest.mark.extended
def test_right_hand_sides_of_the_same_matrices():
    """By `rhs_axis`, and of factors, which have names as well."""
    below, sides = RAIN[0].drop_vars("place"), RAIN
    wanted = mgrec.solve_tridiagonal(R[0], 3.0, R[0], R.T, axis=0, rhs_axis=1).T
    found = mgrec.solve_tridiagonal(below, 3.0, below, sides, axis=1, rhs_axis=0)
    np.testing.assert_array_equal(found.values, wanted)
    factors = mgrec.factor_tridiagonal(below, 3.0, below)
    for b in (sides, sides.T):
        x = factors.solve(b)
        assert (x.dims, x.name, x.attrs) == (b.dims, "rain", RAIN.attrs)
        np.testing.assert_allclose(x.transpose("place", "day"), wanted, rtol=1e-13)
    assert isinstance(factors.solve(R), np.ndarray)
    with pytest.raises(ValueError, match="rhs_axis must be None if factors and b have names"):
        factors.solve(sides, rhs_axis=0)


@pytest.mark.extended
def test_a_matrix_has_the_dimensions_of_both_sequences():
    query = xr.DataArray([1, 2, 3], {"base": [5, 6, 7]}, "base")
    target = xr.DataArray([1, 3], {"residue": [1, 2]}, "residue")
    scores = {"match": 1, "mismatch": -1, "gap": -1}
    found = mgrec.smith_waterman(query, target, output="matrix", **scores)
    assert found.dims == ("base", "residue")
    assert list(found.base) == [5, 6, 7]
    expected = mgrec.smith_waterman([1, 2, 3], [1, 3], output="matrix", **scores)
    np.testing.assert_array_equal(found.values, expected)
    found = mgrec.smith_waterman(query, query, output="matrix", **scores)
    assert found.dims == ("query", "target")
    assert mgrec.smith_waterman(query, [1, 2], **scores).score == 2


OTHER = xr.DataArray([0.5, 0.6], dims="member")
REFUSED = {
    "other labels": (lambda: ewm(RAIN, span=3, statistic="cov", other=RAIN[:, ::-1], dim="day"), "exact"),
    "dimensions that none has all of": (
        lambda: mgrec.linear_recurrence(OTHER, RAIN, axis=1),
        r"one DataArray must have all dimensions, \('place', 'day', 'member'\), .*broadcast",
    ),
    "an array with more axes": (
        lambda: mgrec.linear_recurrence(np.ones((2, 1, 1)), RAIN, dim="day"),
        r"must have all dimensions of the result; got \('place', 'day'\), .*\(2, 3, 40\)",
    ),
    "a state for every step": (
        lambda: mgrec.linear_recurrence(0.5, RAIN, RAIN, dim="day"),
        "initial must not have the dimension 'day'",
    ),
    "times of places": (
        lambda: ewm(RAIN, halflife=1.0, times=KEPT, dim="day"),
        r"times must have the dimension 'day' alone; got \('place',\)",
    ),
    "marks of places": (
        lambda: mgrec.linear_recurrence(0.5, RAIN, reset=KEPT > 0.5, dim="day"),
        "reset must have the dimension 'day'",
    ),
    "no such axis": (lambda: mgrec.linear_recurrence(0.5, RAIN, axis=2), "axis must be from -2 to 1"),
    "no axis": (
        lambda: mgrec.linear_recurrence(0.5, RAIN),
        r"dim must be one of the dimensions \('place', 'day'\), .*more than one; got none",
    ),
    "no axis of decimate": (lambda: decimate(RAIN, 2), r"\('place', 'day'\), .*got none"),
    "no such name": (lambda: ewm(RAIN, span=3, axis="hour"), "axis must be .*; got 'hour'"),
    "no such dimension": (
        lambda: decimate(RAIN, 2, dim="hour"),
        r"dim must be .*\('place', 'day'\); got 'hour'",
    ),
    "a number as a name": (lambda: ewm(RAIN, span=3, dim=1), "dim must be one of .*; got 1"),
    "a dimension of none": (
        lambda: mgrec.linear_recurrence(xr.DataArray(0.5), R, dim="day"),
        "dim must name a dimension of an operand; got none",
    ),
    "states without a dimension of their own": (
        lambda: lfilter(B, A, RAIN, dim="day", zi=KEPT),
        r"zi must have .*\('place',\) and 1 more",
    ),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_refused_kinds():
    with pytest.raises(TypeError, match="out must be an array without names of dimensions"):
        mgrec.linear_recurrence(0.5, RAIN, out=RAIN.copy())
    with pytest.raises(TypeError, match=r"of one library.* Series of pandas and DataArray of x"):
        mgrec.linear_recurrence(RAIN[0].to_series(), RAIN)
    with pytest.raises(TypeError, match="dim must not be given together with the axis"):
        ewm(RAIN, span=3, dim="day", axis=1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'dim'"):
        ewm(R, span=3, dim="day")
    with pytest.raises(TypeError, match=r"operands must be a NumPy.* got one of xarray: pass its "):
        mgrec.plan(mgrec.linear_recurrence, 0.5, RAIN.chunk())


@pytest.mark.gpu
def test_on_a_gpu():
    cupy = pytest.importorskip("cupy")
    data = RAIN.copy(data=cupy.asarray(R))
    found = mgrec.linear_recurrence(KEPT.copy(data=cupy.asarray(KEPT.values)), data, dim="day")
    assert isinstance(found.data, cupy.ndarray)
    assert found.dims == RAIN.dims
    np.testing.assert_allclose(cupy.asnumpy(found.data), mgrec.linear_recurrence(K, R), rtol=1e-13)
