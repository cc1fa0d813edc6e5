"""Series keep their index and name, in memory and lazily."""

import importlib.util
from functools import partial

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from chunkings import with_extended
from conventions import CASES

import mgrec
from mgrec.signal import decimate, ewm, lfilter, sosfilt

DAYS = pd.date_range("2026-01-01", periods=40)
RAIN = pd.Series(np.random.default_rng(1).gamma(0.3, 10.0, 40), index=DAYS, name="rain")
KEPT = pd.Series(np.random.default_rng(2).uniform(0.5, 0.9, 40), index=DAYS, name="kept")
TABLE = pd.DataFrame({"rain": RAIN, "twice": 2 * RAIN})
SOS = [[0.2, 0.1, 0.0, 1.0, -0.7, 0.1]]


def is_of_steps(case):
    return all(array.shape == DAYS.shape for array in case.data.values())


def table(x):
    """A table of two columns, which stay in [0, 1)."""
    return pd.DataFrame({"rain": x, "square": x**2}, DAYS)


OF_STEPS = [case for case in CASES if case.name not in ("decimate", "sample") and is_of_steps(case)]
others = [case for case in OF_STEPS if case.name not in ("linear_recurrence", "ewm")]
each_function = pytest.mark.parametrize(
    "case", with_extended(OF_STEPS, *others), ids=lambda case: case.qualified_name
)


@each_function
def test_a_series_of_every_function(case):
    expected = pd.Series(case.call(np.asarray), index=DAYS, name="rain")
    found = case.call(lambda x: pd.Series(x, DAYS, name="rain"))
    pd.testing.assert_series_equal(found, expected)


@each_function
def test_the_axis_of_a_table_is_its_index(case):
    columns = {name: case.call(lambda x, name=name: table(x)[name].to_numpy()) for name in ("rain", "square")}
    expected = pd.DataFrame(columns, DAYS)
    numbers = {
        name: np.array(x)[:, None]
        for name, x in case.others.items()
        if isinstance(x, list) and len(x) == len(DAYS)
    }
    for axis in ({}, {"axis": 0}):
        pd.testing.assert_frame_equal(case.call(table, **numbers, **axis), expected, rtol=1e-12)
    rows = case.call(lambda x: table(x).T, axis=1)
    pd.testing.assert_frame_equal(rows.T, expected, rtol=1e-12, check_freq=False)


def test_it_is_the_mean_of_pandas():
    pd.testing.assert_series_equal(ewm(RAIN, span=5), RAIN.ewm(span=5).mean())


@pytest.mark.parametrize("label", ["divisions", "to_cupy", "requires_grad", "iloc", "dtype"])
def test_labels_are_no_attributes(label):
    """pandas has the attribute s.label of a Series s with the label."""
    s, other = (pd.Series([1.0, scale], index=[label, "b"]) for scale in (2.0, 3.0))
    w = mgrec.linear_recurrence(s, other)
    assert w.tolist() == [1.0, 5.0]
    assert w.index.equals(s.index)


def test_the_name_is_kept_where_all_have_it():
    assert mgrec.linear_recurrence(KEPT, RAIN).name is None
    found = mgrec.linear_recurrence(KEPT.rename("rain"), RAIN)
    expected = mgrec.linear_recurrence(KEPT.to_numpy(), RAIN.to_numpy())
    pd.testing.assert_series_equal(found, pd.Series(expected, index=DAYS, name="rain"))
    assert ewm(RAIN, span=3, statistic="corr", other=KEPT).name is None
    assert mgrec.linear_recurrence(0.5, t=RAIN, reset=KEPT > 0.7).name == "rain"


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


def test_tables_of_ewm_are_those_of_pandas():
    pd.testing.assert_frame_equal(ewm(TABLE, span=5), TABLE.ewm(span=5).mean())
    pd.testing.assert_frame_equal(TABLE.pipe(ewm, span=5), TABLE.ewm(span=5).mean())
    assert decimate(TABLE, 2, 2, zero_phase=False).shape == (20, 2)


def test_a_table_of_coefficients_is_no_data():
    x = np.ones((3, 4))
    found = sosfilt(pd.DataFrame(SOS), x)
    np.testing.assert_array_equal(found, sosfilt(SOS, x))


def test_series_beside_a_table_have_its_columns_and_marks_its_rows():
    kept = pd.Series([0.5, 0.25], TABLE.columns, name="kept")
    marks, days = RAIN > 5, pd.Series(DAYS, DAYS)
    found = mgrec.linear_recurrence(kept, TABLE, 10 * kept, reset=marks)
    wanted = {
        name: mgrec.linear_recurrence(kept[name], TABLE[name], 10 * kept[name], reset=marks) for name in TABLE
    }
    pd.testing.assert_frame_equal(found, pd.DataFrame(wanted))
    found = ewm(TABLE, halflife="2D", times=days)
    pd.testing.assert_frame_equal(found, TABLE.ewm(halflife="2D", times=days).mean())


def test_a_series_beside_a_dask_array_stays_lazy():
    found = mgrec.linear_recurrence(KEPT, da.from_array(RAIN.to_numpy(), chunks=15))
    assert isinstance(found, da.Array)
    expected = mgrec.linear_recurrence(KEPT.to_numpy(), RAIN.to_numpy())
    np.testing.assert_allclose(found, expected, rtol=1e-13)


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
    "text": (lambda: mgrec.linear_recurrence(0.5, pd.Series(["a"])), TypeError, "t must .*; got <U1"),
    "dates": (lambda: ewm(pd.Series(DAYS), span=3), TypeError, "x must be .*; got datetime64"),
    "several dtypes": (
        lambda: mgrec.linear_recurrence(0.5, pd.DataFrame({"a": [1.0], "b": ["x"]}), axis=0),
        TypeError,
        "t must be of .*; got object",
    ),
    "another index": (
        lambda: mgrec.linear_recurrence(KEPT.iloc[::-1], RAIN),
        ValueError,
        "s and t must have the same index; got the same labels in another order, first .* at 0",
    ),
    "a shorter index": (
        lambda: mgrec.linear_recurrence(KEPT.iloc[:9], RAIN),
        ValueError,
        "got 9 and 40 labels",
    ),
    "other labels": (
        lambda: mgrec.linear_recurrence(RAIN, RAIN.rename(index={DAYS[7]: DAYS[0]})),
        ValueError,
        r"got different labels, first Timestamp\('2026-01-08.* and .*01-01.* at 7: reindex one",
    ),
    "other columns": (
        lambda: mgrec.linear_recurrence(TABLE, TABLE[["twice", "rain"]]),
        ValueError,
        "must have the same columns; got the same labels .* order, first 'rain' and 'twice'",
    ),
    "a series beside a table": (
        lambda: mgrec.linear_recurrence(KEPT, TABLE),
        ValueError,
        r"s must have the columns of t as its index; got .*: for one number a row, pass .*Frame\(",
    ),
    "correlations with a series": (
        lambda: ewm(TABLE, span=3, statistic="corr", other=RAIN),
        ValueError,
        r"pass other as a DataFrame .*pandas\.DataFrame\(\{column: other for column in x\}\)",
    ),
    "out": (lambda: mgrec.linear_recurrence(0.5, RAIN, out=RAIN), TypeError, "out must be an array; got"),
}


@pytest.mark.parametrize(("call", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.fixture
def frames():
    pytest.importorskip("pyarrow")
    return pytest.importorskip("dask.dataframe")


@pytest.mark.extended
@pytest.mark.parametrize("call", [partial(mgrec.linear_recurrence, 0.5), partial(ewm, span=5)])
def test_a_column_of_a_dask_table_stays_lazy(frames, call):
    lazy = frames.from_pandas(TABLE, npartitions=3)
    found = call(lazy.rain)
    assert (type(found), found.divisions) == (type(lazy.rain), lazy.divisions)
    pd.testing.assert_series_equal(found.compute(), call(RAIN), check_freq=False)


@pytest.mark.extended
def test_a_table_of_dask(frames):
    found = mgrec.linear_recurrence(0.5, frames.from_pandas(TABLE, npartitions=3))
    expected = mgrec.linear_recurrence(0.5, TABLE)
    pd.testing.assert_frame_equal(found.compute(), expected, check_freq=False)


@pytest.mark.extended
def test_dask_series_of_other_divisions_are_refused(frames):
    one, other = (frames.from_pandas(KEPT, npartitions=n) for n in (2, 3))
    with pytest.raises(ValueError, match=r"same divisions; got .*: repartition one"):
        mgrec.linear_recurrence(one, other)
