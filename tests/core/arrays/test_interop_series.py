"""Series keep their index and name, in memory and lazily."""

import importlib.util

import dask.array as da
import numpy as np
import pandas as pd
import pytest

import mgrec
from mgrec.signal import ewm, filtfilt, lfilter, sosfilt

DAYS = pd.date_range("2026-01-01", periods=40)
RAIN = pd.Series(np.random.default_rng(1).gamma(0.3, 10.0, 40), index=DAYS, name="rain")
KEPT = pd.Series(np.random.default_rng(2).uniform(0.5, 0.9, 40), index=DAYS, name="kept")
TABLE = pd.DataFrame({"rain": RAIN, "twice": 2 * RAIN})
SOS = [[0.2, 0.1, 0.0, 1.0, -0.7, 0.1]]


@pytest.mark.extended
@pytest.mark.parametrize(
    "call",
    [
        lambda x: mgrec.linear_recurrence(0.5, x),
        lambda x: mgrec.rational_recurrence(x, 1.0, 1.0, 2.0, initial=0.5),
        lambda x: mgrec.scan(mgrec.maps.max_plus, x, 0.0, initial=0.0),
        lambda x: lfilter([0.2], [1.0, -0.8], x),
        lambda x: sosfilt(SOS, x),
        lambda x: filtfilt([0.2], [1.0, -0.8], x),
        lambda x: ewm(x, span=5),
    ],
)
def test_a_series_of_every_function(call):
    expected = pd.Series(call(RAIN.to_numpy()), index=DAYS, name="rain")
    pd.testing.assert_series_equal(call(RAIN), expected)


def test_it_is_the_mean_of_pandas():
    pd.testing.assert_series_equal(ewm(RAIN, span=5), RAIN.ewm(span=5).mean())


def test_the_name_is_kept_where_all_have_it():
    assert mgrec.linear_recurrence(KEPT, RAIN).name is None
    found = mgrec.linear_recurrence(KEPT.rename("rain"), RAIN)
    expected = mgrec.linear_recurrence(KEPT.to_numpy(), RAIN.to_numpy())
    pd.testing.assert_series_equal(found, pd.Series(expected, index=DAYS, name="rain"))
    assert mgrec.weighted_scan(RAIN, weights=KEPT).name == "rain"  # Options do not count.


GROUPS = ["b", "b", "a", "a", "a", "c"]
LABELS = {
    "index": pd.Index(GROUPS),
    "index of objects": pd.Index(GROUPS, dtype=object),
    "level": pd.MultiIndex.from_arrays([GROUPS, range(6)], names=["g", "i"]).get_level_values("g"),
    "categorical": pd.Categorical(GROUPS),
    "series of categories": pd.Series(GROUPS, dtype="category"),
    "series": pd.Series(GROUPS),
    "series of objects": pd.Series(GROUPS, dtype=object),
    "values of a series": pd.Series(GROUPS).values,
    "objects": np.array(GROUPS, object),
    "missing": pd.Series(["b", "b", None, None, None, "c"]),
    "dates": pd.DatetimeIndex(["2026-01-01"] * 2 + ["2026-02-01"] * 3 + ["2026-03-01"], tz="UTC"),
    "nullable mask": pd.array([True, False, True, False, False, True], dtype="boolean"),
}
if importlib.util.find_spec("pyarrow"):
    LABELS["arrow"] = pd.array(GROUPS, dtype="string[pyarrow]")


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_labels_of_pandas_start_anew(labels):
    for x in (np.ones(6, int), da.ones(6, int, chunks=4)):
        found = mgrec.linear_recurrence(1, x, reset=labels)
        np.testing.assert_array_equal(found, [1, 2, 1, 2, 3, 1])


@pytest.mark.filterwarnings("ignore:Dask currently has limited support:UserWarning")
@pytest.mark.parametrize("dtype", ["str", "category"])
def test_labels_of_dask_start_anew(dtype):
    frames = pytest.importorskip("dask.dataframe")
    column = frames.from_pandas(pd.Series(GROUPS, dtype=dtype), npartitions=2)
    labels = column.to_dask_array(lengths=True)
    found = mgrec.linear_recurrence(1, da.ones(6, int, chunks=4), reset=labels)
    np.testing.assert_array_equal(found, [1, 2, 1, 2, 3, 1])
    with pytest.raises(ValueError, match=r"to_dask_array\(lengths=True\)"):
        mgrec.linear_recurrence(1, da.ones(6, int, chunks=4), reset=column)


def test_numbers_of_pandas_are_no_labels():
    with pytest.raises(TypeError, match="reset must be a mask of bool, or labels"):
        mgrec.linear_recurrence(1, np.ones(2), reset=pd.Index([0.5, 1.5]))
    with pytest.raises(TypeError, match="got object of NoneType, str"):
        mgrec.linear_recurrence(1, np.ones(2), reset=np.array(["a", None], object))


@pytest.mark.extended
def test_states_are_arrays():
    y, zf = lfilter([0.2], [1.0, -0.8], RAIN, zi=[1.0])
    assert isinstance(y, pd.Series)
    assert isinstance(zf, np.ndarray)


@pytest.mark.extended
def test_a_table_has_rows_and_columns():
    found = mgrec.linear_recurrence(0.5, TABLE, axis=0)
    expected = mgrec.linear_recurrence(0.5, TABLE.to_numpy(), axis=0)
    pd.testing.assert_frame_equal(found, pd.DataFrame(expected, DAYS, TABLE.columns))


@pytest.mark.extended
@pytest.mark.parametrize("dtype", ["Int64", "Float64", "Float32"])
def test_nullable_dtypes(dtype):
    own = mgrec.linear_recurrence(2, pd.Series([1, 2, 3], dtype=dtype))
    expected = mgrec.linear_recurrence(2, np.array([1, 2, 3], dtype.lower()))
    pd.testing.assert_series_equal(own, pd.Series(expected))


@pytest.mark.extended
def test_missing_floats_are_nan():
    found = ewm(pd.Series([1.0, None, 3.0], dtype="Float64"), span=3)
    np.testing.assert_array_equal(found, ewm(np.array([1.0, np.nan, 3.0]), span=3))


class SeriesOfCudf(pd.Series):
    """What cuDF's series have beside pandas' protocol."""

    @property
    def _constructor(self):
        return SeriesOfCudf

    def to_cupy(self):
        if self.hasnans:
            raise ValueError("Column must have no nulls.")
        return super().to_numpy().copy()

    def to_numpy(self, *args, **kwargs):
        raise TypeError("on a GPU: to host memory only by to_pandas")


def test_a_series_on_a_gpu_hands_over_what_is_there():
    own = SeriesOfCudf(RAIN)
    found = mgrec.linear_recurrence(0.5, own)
    assert isinstance(found, SeriesOfCudf)
    assert found.index.equals(DAYS)
    assert found.tolist() == mgrec.linear_recurrence(0.5, RAIN.to_numpy()).tolist()
    with pytest.raises(TypeError, match="missing values only of floats; got float64: fill"):
        mgrec.linear_recurrence(0.5, own.where(own > 1))


REFUSED = {
    "missing integers": (
        lambda: mgrec.linear_recurrence(0.5, pd.Series([1, None], dtype="Int64")),
        TypeError,
        "t must contain numbers of a NumPy dtype, and missing values only of floats; got Int64",
    ),
    "text": (
        lambda: mgrec.linear_recurrence(0.5, pd.Series(["a"])), TypeError, "t must .*; got <U1"
    ),
    "dates": (lambda: ewm(pd.Series(DAYS), span=3), TypeError, "x must be .*; got datetime64"),
    "several dtypes": (
        lambda: mgrec.linear_recurrence(0.5, pd.DataFrame({"a": [1.0], "b": ["x"]}), axis=0),
        TypeError,
        "t must be of .*; got object",
    ),
    "another index": (
        lambda: mgrec.linear_recurrence(KEPT.iloc[::-1], RAIN),
        ValueError,
        "series must have the same index, .*; got a Series of 40 rows and a Series of 40 rows",
    ),
    "a table beside a series": (
        lambda: mgrec.linear_recurrence(KEPT, TABLE, axis=0), ValueError, "cannot be combined"
    ),
    "out": (
        lambda: mgrec.linear_recurrence(0.5, RAIN, out=RAIN), TypeError, "out must be an array; got"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.fixture
def frames():
    pytest.importorskip("pyarrow")
    return pytest.importorskip("dask.dataframe")


@pytest.mark.extended
@pytest.mark.parametrize(
    "call",
    [
        lambda x: mgrec.linear_recurrence(0.5, x),
        lambda x: mgrec.linear_recurrence(x, x, reverse=True),
        lambda x: lfilter([0.2], [1.0, -0.8], x),
        lambda x: ewm(x, span=5),
    ],
)
def test_a_column_of_a_dask_table_stays_lazy(frames, call):
    lazy = frames.from_pandas(TABLE, npartitions=3)
    found = call(lazy.rain)
    assert (type(found), found.divisions) == (type(lazy.rain), lazy.divisions)
    pd.testing.assert_series_equal(found.compute(), call(RAIN), check_freq=False)


@pytest.mark.extended
def test_a_table_of_dask(frames):
    found = mgrec.linear_recurrence(0.5, frames.from_pandas(TABLE, npartitions=3), axis=0)
    expected = mgrec.linear_recurrence(0.5, TABLE, axis=0)
    pd.testing.assert_frame_equal(found.compute(), expected, check_freq=False)


@pytest.mark.extended
def test_dask_series_of_other_divisions_are_refused(frames):
    one, other = (frames.from_pandas(KEPT, npartitions=n) for n in (2, 3))
    with pytest.raises(ValueError, match=r"same divisions; got .*: repartition one"):
        mgrec.linear_recurrence(one, other)
