"""The loops of filters on a CPU: blocks, steps, pipelines, and when SciPy's loop takes over."""

import dask.array as da
import numpy as np
import pytest
from internals import LEAD, MIN_STREAMED_BYTES, section_rows
from scipy import signal
from test_filters import assert_same, draw

import mgrec.signal
from mgrec.signal import lfilter, sosfilt

# The tests of all filters run the same kernels.
pytestmark = pytest.mark.extended

FILTERS = {
    "feed-forward": (np.arange(1.0, 9), [1.0]),
    "order 1": ([0.5, 0.5], [1.0, -0.9]),
    "order 5": signal.butter(5, 0.3),
    "order 8, crowded": signal.butter(8, 0.2),
    "order 12": ([1.0], [1, *(0.4 / np.arange(1.0, 13))]),
    **{f"{n} sections": (signal.butter(2 * n, 0.2, output="sos"),) for n in (1, 4, 8)},
}
AT = [0, 13, 14, 63, 700, 2999]


def solve(name, x, dtype=float, library=mgrec.signal, **options):
    filter_ = [np.asarray(part, dtype) for part in FILTERS[name]]
    solve = library.sosfilt if len(filter_) == 1 else library.lfilter
    return solve(*filter_, x, **options)


@pytest.mark.parametrize("design", ["peak", "notch"])
@pytest.mark.parametrize("width", [30, 165, 1000])
def test_resonances_are_as_accurate_as_scipys(design, width):
    """Blocks of eight samples had 8 to 13 times its errors for peaks at 0.05."""
    b, a = {"peak": signal.iirpeak, "notch": signal.iirnotch}[design](0.05, width)
    x = draw((8, 600), float)
    exact = signal.lfilter(b.astype("g"), a.astype("g"), x.astype("g"))
    ours, theirs = (np.square(solve(b, a, x) - exact).mean() ** 0.5 for solve in (lfilter, signal.lfilter))
    assert ours <= 3 * theirs


DECAY = 0.4 / np.arange(1.0, 65)


@pytest.mark.parametrize(
    ("scale", "orders"),
    [(0.0, (1, 17, 64)), (1.0, (9, 17, 64)), (0.01, (1, 2, 8))],
    ids=["feed-forward", "steps", "blocks"],
)
def test_filters_of_other_orders_share_a_kernel_in_short_calls(scale, orders):
    x, kernels = draw((2, 200), float), set()
    for order in orders:
        a = np.r_[1.0, scale * DECAY[:order]] if scale else [1.0]
        b = draw(order + 1, float, seed=9)
        assert_same([lfilter(b, a, x)], [signal.lfilter(b, a, x)])
        lfilter(b.astype("f4"), np.float32(a), x.astype("f4"))
        kernels.add(section_rows.cache_info().misses)
    assert len(kernels) == 1


@pytest.mark.parametrize("length", [63, 64, 65, 70, 71, 1023, 1053, 5000])
@pytest.mark.parametrize("name", FILTERS)
def test_rows_of_float32_are_computed_in_float64_and_rounded_once(name, length):
    x = draw((2, length), "f4")
    wide = solve(name, x.astype(float), "f4")
    np.testing.assert_array_equal(solve(name, x, "f4"), wide.astype("f4"))


@pytest.mark.parametrize("at", AT)
@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38, 1e305])
@pytest.mark.parametrize("name", FILTERS)
def test_a_row_that_comes_near_overflow_is_scipys_loops(name, value, at):
    dtype = float if value == 1e305 else "f4"
    x = draw((3, 3000), dtype)
    others = solve(name, x, dtype)
    x[1, at] = value
    with np.errstate(all="ignore"):
        wanted = solve(name, x, dtype, signal)
    y = solve(name, x, dtype)
    for find in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(find(y), find(wanted))
    np.testing.assert_array_equal(y[[0, 2]], others[[0, 2]])


@pytest.mark.parametrize("name", ["order 1", "order 5", "order 8, crowded", "8 sections"])
def test_large_results_are_the_same_wherever_they_lie(name, monkeypatch):
    monkeypatch.setenv("MGREC_NUM_THREADS", "1")
    length = MIN_STREAMED_BYTES // 8 + 29
    x, memory, results = draw(length, float), np.empty(length + 16), []
    start = -(memory.ctypes.data + 8 * LEAD) % 64 // 8  # there the blocks begin lines of memory
    for offset in (start, start + 1, start + 5):
        memory[:] = np.nan
        results.append(solve(name, x, out=memory[offset : offset + length]).copy())
        assert np.isnan(memory[:offset]).all()
        assert np.isnan(memory[offset + length :]).all()
    short = solve(name, x[: length // 2].copy())
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    np.testing.assert_array_equal(results[0][: length // 2 - 40], short[:-40])


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("a", [[1.0], [1.0, 0.0], [1.0, 0.0, 0.0, 0.0], [1.0, 0.4, 0.0]])
def test_coefficients_that_are_zero_keep_a_nan(a, value):
    """SciPy forgets it where a is a[0] alone."""
    b, x = [0.0, -2.0, 0.5], draw(100, float)
    x[3] = value
    zi = np.zeros(max(len(a), 3) - 1)
    for have, want in zip(lfilter(b, a, x, zi=zi), signal.lfilter(b, a, x, zi=zi), strict=True):
        np.testing.assert_allclose(have, want)


@pytest.mark.parametrize(
    ("name", "length", "is_complex"),
    [
        ("ends in nan", 7, False),
        ("ends in nan", 7, True),
        ("alternating", 7, False),
        ("alternating", 70, False),
        ("taps", 1, True),
        ("sections", 1, False),
        ("sections", 7, False),
    ],
)
def test_summaries_carry_inf_as_the_loop_does(name, length, is_complex):
    rng = np.random.default_rng(7)
    x = rng.normal(size=300) * (1 + 1j if is_complex else 1)
    x[3] = -np.inf
    chunked = da.from_array(x, chunks=length)
    if name == "sections":
        sos = np.c_[-rng.random((5, 3)), np.ones(5), -0.4 * rng.random((5, 2))]
        zi = np.zeros((5, 2))
        wanted, (_, zf) = signal.sosfilt(sos, x, zi=zi)[1], sosfilt(sos, chunked, zi=zi)
    else:
        b, a = {
            "ends in nan": ([1.0, 0.5], [1.0, -0.9, 0.3]),
            "alternating": ([1.0], [1.0, 0.5]),
            "taps": (np.arange(1.0, 5), [1.0]),
        }[name]
        zi = np.zeros(max(len(a), len(b)) - 1)
        wanted, (_, zf) = signal.lfilter(b, a, x, zi=zi)[1], lfilter(b, a, chunked, zi=zi)
    assert name == "taps" or not np.isfinite(wanted).any()
    np.testing.assert_allclose(zf.compute(scheduler="sync"), wanted)
