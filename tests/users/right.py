"""What a user may write: no type checker has a word to say."""

from typing import Any, assert_type

import dask.array as da
import jax
import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

import mgrec
from mgrec import hmm, statespace
from mgrec.signal import ewm, filtfilt, lfilter
from mgrec.types import Memory

x = np.ones(5)
how: Memory = "two-pass"

assert_type(mgrec.linear_recurrence(0.5, x), NDArray[Any])
assert_type(mgrec.linear_recurrence(x, x, memory=how, out=x), NDArray[Any])
assert_type(mgrec.linear_recurrence(0.5, [1.0, 2.0]), NDArray[Any])
assert_type(mgrec.linear_recurrence(mgrec.Coefficient(lambda i: i), x), NDArray[Any])
assert_type(mgrec.scan(mgrec.maps.max_plus, x, 0.0, initial=0.0), NDArray[Any])
assert_type(mgrec.scan(mgrec.maps.matrix2, x, 1, 1, 0, 0, 0, initial=(1, 0)), tuple[NDArray[Any], ...])
assert_type(lfilter([1.0], [1.0], x, zi=x[:1]), tuple[NDArray[Any], NDArray[Any]])
assert_type(filtfilt([1.0], [1.0], x, padtype=None), NDArray[Any])
assert_type(mgrec.weighted_scan(x, 0.5, operators=("min", "+")), NDArray[Any])
mgrec.wavefront(np.ones((3, 3)), weights=(1, 1, 0), operators=("max", lambda a, b: a + b))
score = mgrec.smith_waterman("GATT", "TACA", match=1, mismatch=-1, gap=-2).score
mgrec.factor_tridiagonal(x, x + 2, x).solve(x)
assert_type(hmm.viterbi(x, x, x).states, NDArray[Any])
assert_type(
    statespace.kalman_smoother([1.0], x, x, x, x, initial_state=x, initial_state_cov=x).smoothed_state,
    NDArray[Any],
)


def of_dask(a: da.Array, b: da.Array) -> None:
    """Lazy in, lazy out; NumPy coefficients stand beside."""
    assert_type(mgrec.linear_recurrence(0.5, a), da.Array)
    assert_type(mgrec.linear_recurrence(x, a, initial=x[0]), da.Array)
    assert_type(mgrec.linear_recurrence(a, x), da.Array)
    assert_type(mgrec.solve_tridiagonal(x, x, x, a), da.Array)
    assert_type(mgrec.solve_banded((1, 1), x, a), da.Array)
    assert_type(mgrec.solve_block_tridiagonal(x, x, x, a), da.Array)
    assert_type(mgrec.weighted_scan(a, x), da.Array)
    assert_type(mgrec.solve_tridiagonal(a, b, a, b, method="thomas"), da.Array)
    assert_type(mgrec.scan(mgrec.maps.max_plus, a, initial=0.0), da.Array)
    assert_type(hmm.forward_backward(x, x, a, lengths=[2, 3]).posteriors, da.Array)
    assert_type(hmm.log_likelihood(x, x, a), da.Array)
    mgrec.dask.progress(a)


def of_jax(a: jax.Array) -> jax.Array:
    """Arrays that DLPack hands over."""
    assert_type(mgrec.summed_area_table(a), jax.Array)
    assert_type(hmm.log_likelihood(a, a, x), jax.Array)
    filtered = statespace.kalman_filter(
        x, a, a, a, x, initial_state=x, initial_state_cov=x, state_intercept=a
    )
    assert_type(filtered.llf_obs, jax.Array)
    return mgrec.rational_recurrence(a, 1.0, 1.0, 2.0, initial=0.5)


def of_pandas(a: pd.Series, b: pd.DataFrame) -> pd.DataFrame:
    """Series and tables."""
    assert_type(ewm(a, span=3), pd.Series)
    assert_type(hmm.sample(x, x, a), pd.Series)
    assert_type(hmm.forward_backward(x, x, b).posteriors, pd.DataFrame)
    states = statespace.kalman_filter(a, x, x, x, x, initial_state=x, initial_state_cov=x)
    states.filtered_state.to_csv("states.csv")
    return mgrec.linear_recurrence(0.5, b)


def of_xarray(a: xr.DataArray, b: xr.DataArray) -> xr.DataArray:
    """DataArrays, and numbers beside them."""
    assert_type(ewm(a, span=3), xr.DataArray)
    assert_type(ewm(a, span=3, dim="time"), xr.DataArray)
    assert_type(lfilter([1.0], [1.0], a, axis="time"), xr.DataArray)
    assert_type(hmm.viterbi(x, x, a, dim="time").states, xr.DataArray)
    shocks = statespace.sample(x, x, a, b, initial_state=x, dim="time")
    assert_type(shocks.endog, xr.DataArray)
    return mgrec.linear_recurrence(b, a, initial=b[0])
