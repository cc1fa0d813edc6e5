"""Filters on a group of ranks: each has a part of the signal, and takes samples of the others."""

import numpy as np
import pandas as pd
import pytest
from thread_group import ThreadGroup, moved, part_of, run_on_ranks, solve_on_ranks

from mgrec import ndimage
from mgrec.signal import decimate, filtfilt, sosfiltfilt

BOUNDS = (0, 130, 130, 135, 300)
STEPS = BOUNDS[-1]
SOS = np.array([[0.1, 0.2, 0.1, 1, -0.9, 0.3], [1, 0, -1, 1, -0.5, 0.2]])
# Its response does not decay over the parts.
SLOW = np.array([[0.1, 0.0, 0.0, 1, -0.999, 0.0]])
FILTERS = {
    "zero phase": lambda x, **options: sosfiltfilt(SOS, x, **options),
    "zero phase, slow": lambda x, **options: sosfiltfilt(SLOW, x, **options),
    "zero phase, even": lambda x, **options: filtfilt(
        [0.5, 0.2], [1.0, -0.4], x, padtype="even", padlen=140, **options
    ),
    "zero phase, slow, no extension": lambda x, **options: filtfilt(
        [0.1], [1.0, -0.999], x, padtype=None, **options
    ),
    "decimated": lambda x, **options: decimate(x, 7, **options),
    "decimated, slow": lambda x, **options: decimate(x, 30, **options),
    "decimated, slow, once": lambda x, **options: decimate(x, 30, zero_phase=False, **options),
    "decimated, finite": lambda x, **options: decimate(x, 4, ftype="fir", **options),
    "gaussian": lambda x, **options: ndimage.gaussian_filter1d(x, 2.5, **options),
    "gaussian, order 1": lambda x, **options: ndimage.gaussian_filter1d(
        x, 40.0, order=1, mode="wrap", **options
    ),
    "window": lambda x, **options: ndimage.uniform_filter1d(x, 151, mode="mirror", **options),
    "splines": lambda x, **options: ndimage.spline_filter1d(x, 3, **options),
}


def on_ranks(xp, function, x, axis, bounds=BOUNDS):
    def call(rank, group):
        return function(moved(xp, part_of(x, bounds, rank, axis)), axis=axis, group=group)

    return np.concatenate(solve_on_ranks(len(bounds) - 1, call), axis)


@pytest.mark.parametrize("dtype", ["f8", "i2"])
@pytest.mark.parametrize("name", FILTERS)
def test_filters(xp, name, dtype):
    pytest.importorskip("scipy")
    generator = np.random.default_rng(1)
    signal = (1000 * generator.normal(size=(2, STEPS))).astype(dtype)
    for x, axis in ((signal, 1), (signal[0], 0)):
        expected = FILTERS[name](x, axis=axis)
        found = on_ranks(xp, FILTERS[name], x, axis)
        assert found.dtype == expected.dtype
        atol = 1e-9 * np.abs(expected).max() if expected.dtype.kind == "f" else 1
        np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


@pytest.mark.parametrize(
    ("name", "bounds", "are_neighbours"),
    [
        ("zero phase", (0, 4000, 8000, 12_000), True),
        ("decimated, finite", (0, 4000, 8000, 12_000), True),
        ("gaussian", (0, 4000, 8000, 12_000), True),
        ("window", (0, 4000, 4000, 12_000), False),  # an empty part between neighbours
        ("window", (0, 5000, 5001, 12_000), False),
    ],
)
def test_samples_are_sent_to_neighbours_alone(xp, name, bounds, are_neighbours, monkeypatch):
    """Messages of all ranks have numbers, and the form of the samples."""
    pytest.importorskip("scipy")
    x = np.random.default_rng(3).normal(size=(12_000, 4))
    sizes, exchanges = [], []
    all_gather_bytes, exchange = ThreadGroup.all_gather_bytes, ThreadGroup.exchange

    def measured(group, message):
        sizes.append(len(message))
        return all_gather_bytes(group, message)

    def counted(group, *arrays):
        exchanges.append(group.rank)
        assert all(isinstance(array, xp.ndarray) for array in arrays)
        return exchange(group, *arrays)

    monkeypatch.setattr(ThreadGroup, "all_gather_bytes", measured)
    monkeypatch.setattr(ThreadGroup, "exchange", counted)

    found = on_ranks(xp, FILTERS[name], x, 0, bounds)
    np.testing.assert_allclose(found, FILTERS[name](x, axis=0), rtol=1e-9, atol=1e-12)
    assert len(sizes) == 2 * 3
    assert max(sizes) < 1000
    assert sorted(exchanges) == [0, 1, 2] * are_neighbours


def test_a_nan_changes_what_it_changes_without_a_group(xp):
    x = np.random.default_rng(2).normal(size=STEPS)
    x[200] = np.nan
    expected = sosfiltfilt(SOS, x)
    found = on_ranks(xp, FILTERS["zero phase"], x, 0)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def short(part, group):
    return sosfiltfilt(SOS, part, group=group)


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (short, ValueError, "greater than padlen, which is 15; got 9 along axis 0"),
        (
            lambda part, group: filtfilt([1.0], [1.0, 0.5], part, method="gust", group=group),
            NotImplementedError,
            "method must be 'pad' with a group",
        ),
        (
            lambda part, group: ndimage.uniform_filter1d(
                part.astype("f4" if group.rank else "f8"), 3, group=group
            ),
            ValueError,
            "the dtype of the signal must be the same on all ranks",
        ),
        (
            lambda part, group: decimate(pd.Series(part), 4, group=group),
            TypeError,
            "x must be an array on a group.*got a Series",
        ),
    ],
)
def test_errors_are_raised_on_all_ranks(function, error, message):
    answers = run_on_ranks(3, lambda rank, group: function(np.ones(3), group))
    for answer in answers:
        with pytest.raises(error, match=message):
            raise answer
