"""The kernels of filters on a CPU: blocks, steps, pipelines, and when SciPy's loop takes over."""

import numpy as np
import pytest
from scipy import signal

from mgrec.core.arrays.chunk import Chunk
from mgrec.engines.cpu.simd.lanes import MIN_STREAMED_BYTES
from mgrec.filters.cascade import Cascade
from mgrec.filters.cpu.one_thread import (
    LONG,
    choose_loop,
    determine_filter,
    precompute_filter,
    propagate_filter,
)
from mgrec.filters.cpu.pipeline import BLOCK, CHECKED, LAG
from mgrec.filters.cpu.section_rows import BLOCKS, FORWARD, LEAD, STEPS, section_rows

# The tests of the public functions run the same kernels.
pytestmark = pytest.mark.extended

LENGTHS = [1, LONG - 1, LONG, LONG + 1, 70, 71, 1023, CHECKED + 28, CHECKED + 29, 5000]
SINGLE = {
    "feed-forward": (np.arange(1.0, 9), [1.0], FORWARD),
    "order 1": ([0.5, 0.5], [1.0, -0.9], BLOCKS),
    "order 5": (*signal.butter(5, 0.3), BLOCKS),
    "order 8, crowded": (*signal.butter(8, 0.2), STEPS),
    "order 12": ([1.0], [1, *(0.4 / np.arange(1.0, 13))], STEPS),
}


def draw(*shape, seed=7):
    return np.random.default_rng(seed).normal(size=shape)


def run(cascade, x, carry_in, result=None):
    """Results and carry-out of rows x, from states (states, rows)."""
    x = x[:, :, None]
    result = np.full_like(x, np.nan) if result is None else result[:, :, None]
    chunk = Chunk((x,), x.shape, x.dtype)
    outcome = determine_filter(cascade, chunk, carry_in[:, :, None], result)
    assert not outcome.redo.any()
    return result[:, :, 0], outcome.carry_out[:, :, 0]


def assert_near(have, want):
    for computed, wanted in zip(have, want, strict=True):
        unit = np.finfo(computed.dtype).eps
        size = np.abs(wanted).max(initial=1)
        np.testing.assert_allclose(computed, wanted, rtol=0, atol=1e4 * unit * size)


def sections(count):
    return signal.butter(2 * count, 0.2, output="sos")


@pytest.mark.parametrize("name", SINGLE)
def test_each_section_has_its_loop(name):
    b, a, kind = SINGLE[name]
    assert choose_loop(Cascade.of_polynomials(b, a))[0] == kind


@pytest.mark.parametrize("design", ["peak", "notch"])
@pytest.mark.parametrize("width", [30, 165, 1000])
def test_resonances_are_as_accurate_as_scipys(design, width):
    """Blocks of eight samples had 8 to 13 times its errors for peaks at 0.05."""
    b, a = {"peak": signal.iirpeak, "notch": signal.iirnotch}[design](0.05, width)
    x = draw(8, 600)
    exact = signal.lfilter(b.astype("g"), a.astype("g"), x.astype("g"))
    cascade = Cascade.of_polynomials(b, a)
    ours, _ = run(cascade, x, np.zeros((2, 8)))
    errors = [np.square(y - exact).mean() ** 0.5 for y in (ours, signal.lfilter(b, a, x))]
    assert errors[0] <= 3 * errors[1]


@pytest.mark.extended
@pytest.mark.parametrize(
    "dtype", [np.float64, pytest.param(np.float32, marks=pytest.mark.extended)]
)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", SINGLE)
def test_one_section_is_scipys(name, length, dtype):
    b, a, _ = SINGLE[name]
    cascade = Cascade.of_polynomials(b, a)
    x, carry_in = draw(2, length).astype(dtype), draw(2, cascade.states, seed=8)
    wanted, state = signal.lfilter(b, a, x.astype(float), zi=carry_in)
    assert_near(run(cascade, x, carry_in.T), (wanted, state.T))
    columns = x.T[None].copy()
    result = np.full_like(columns, np.nan)
    chunk = Chunk((columns,), columns.shape, x.dtype)
    outcome = determine_filter(cascade, chunk, carry_in.T[:, None].copy(), result)
    assert_near((result[0].T, outcome.carry_out[:, 0]), (wanted, state.T))


@pytest.mark.parametrize("kind", [FORWARD, STEPS])
def test_long_filters_of_other_orders_share_a_kernel(kind):
    x, kernels = draw(2, 200), set()
    for order in (17, 40, 64):
        a = [1.0] if kind == FORWARD else [1, *(0.4 / np.arange(1.0, order + 1))]
        b, carry_in = draw(order + 1, seed=9), draw(2, order, seed=8)
        wanted, state = signal.lfilter(b, a, x, zi=carry_in)
        assert_near(run(Cascade.of_polynomials(b, a), x, carry_in.T), (wanted, state.T))
        kernels.add(section_rows.cache_info().misses)
    assert len(kernels) == 1


@pytest.mark.extended
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", SINGLE)
def test_rows_of_float32_are_computed_in_float64_and_rounded_once(name, length):
    cascade = Cascade.of_polynomials(*SINGLE[name][:2])
    x, carry_in = draw(2, length).astype(np.float32), draw(cascade.states, 2, seed=8)
    wide, state = run(cascade, x.astype(float), carry_in)
    result, carry_out = run(cascade, x, carry_in)
    np.testing.assert_array_equal(result, wide.astype(np.float32))
    np.testing.assert_array_equal(carry_out, state)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("name", "dtype"), [("order 5", np.float32), ("order 8, crowded", np.float64)]
)
@pytest.mark.parametrize("length", LENGTHS)
def test_a_section_ends_alike_whether_its_results_are_written(name, length, dtype):
    cascade = Cascade.of_polynomials(*SINGLE[name][:2])
    x = draw(2, length).astype(dtype)
    chunk = Chunk((x[:, :, None],), (2, length, 1), x.dtype)
    carry_out = run(cascade, x, np.zeros((cascade.states, 2)))[1]
    np.testing.assert_array_equal(precompute_filter(cascade, chunk).offset[:, :, 0], carry_out)


@pytest.mark.parametrize("at", [0, 13, 14, 700, 2999])
@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
@pytest.mark.parametrize("name", ["feed-forward", "order 1", "order 8, crowded"])
def test_a_row_of_float32_that_comes_near_overflow_is_scipys_loops(name, value, at):
    b, a, _ = SINGLE[name]
    b, a = (np.array(part, np.float32) for part in (b, a))
    cascade, x = Cascade.of_polynomials(b, a), draw(3, 3000).astype(np.float32)
    x[1, at] = value
    result = np.empty((3, 3000, 1), np.float32)
    chunk = Chunk((x[:, :, None],), result.shape, x.dtype)
    outcome = determine_filter(cascade, chunk, np.zeros((cascade.states, 3, 1)), result)
    with np.errstate(all="ignore"):
        wanted = signal.lfilter(b, a, x)
    is_low = np.abs(wanted).max(axis=1) <= 2.0**120
    np.testing.assert_array_equal(outcome.redo[:, 0], ~is_low)
    for find in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(find(result[:, :, 0]), find(wanted))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("length", [*LENGTHS, BLOCK - 1, BLOCK, BLOCK + 1, BLOCK + LAG * 8, 30_001])
@pytest.mark.parametrize(
    "count", [2, 4, *(pytest.param(count, marks=pytest.mark.extended) for count in (5, 8, 9, 17))]
)
def test_pipelines_are_scipys(count, length, dtype):
    sos, x = sections(count), draw(2, length).astype(dtype)
    carry_in = draw(count, 2, 2, seed=8)
    wanted, state = signal.sosfilt(sos, x.astype(float), zi=carry_in.swapaxes(1, 2))
    state = state.swapaxes(1, 2).reshape(2 * count, 2)
    cascade, before = Cascade.of_sections(sos), carry_in.reshape(2 * count, 2)
    assert_near(run(cascade, x, before), (wanted, state))
    chunk = Chunk((x[:, :, None],), (2, length, 1), x.dtype)
    offset = precompute_filter(cascade, chunk).offset[:, :, 0]
    _, wanted = signal.sosfilt(sos, x.astype(float), zi=np.zeros((count, 2, 2)))
    assert_near([offset], [wanted.swapaxes(1, 2).reshape(2 * count, 2)])


@pytest.mark.parametrize("filter_", ["order 1", "order 5", "order 8, crowded", "sections"])
def test_large_results_are_the_same_wherever_they_lie(filter_):
    if filter_ == "sections":
        cascade = Cascade.of_sections(sections(8))
    else:
        cascade = Cascade.of_polynomials(*SINGLE[filter_][:2])
    length = MIN_STREAMED_BYTES // 8 + 29
    x, carry_in = draw(1, length), np.zeros((cascade.states, 1))
    memory = np.empty(length + 16)
    at = -(memory.ctypes.data + 8 * LEAD) % 64 // 8  # there the blocks begin lines of memory
    found = []
    for offset in (at, at + 1, at + 5):
        memory[:] = np.nan
        result = memory[offset : offset + length].reshape(1, -1)
        found.append(run(cascade, x, carry_in, result)[0].copy())
        assert np.isnan(memory[:offset]).all()
        assert np.isnan(memory[offset + length :]).all()
    short = run(cascade, x[:, : length // 2].copy(), carry_in)[0]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_array_equal(found[0][:, : length // 2 - 40], short[:, :-40])


@pytest.mark.parametrize("at", [0, 13, 14, 700, 2999])
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e305])
@pytest.mark.parametrize("count", [1, 4, 8])
def test_a_row_that_comes_near_overflow_is_scipys_loops(count, value, at):
    sos, x = sections(count), draw(3, 3000)
    x[1, at] = value
    cascade, shape = Cascade.of_sections(sos), (3, 3000, 1)
    result = np.empty(shape)
    carry_in = np.zeros((cascade.states, 3, 1))
    chunk = Chunk((x.reshape(shape),), shape, x.dtype)
    outcome = determine_filter(cascade, chunk, carry_in, result)
    with np.errstate(all="ignore"):
        wanted = signal.sosfilt(sos, x)
    is_low = np.abs(wanted).max(axis=1) <= 2.0**1000
    np.testing.assert_array_equal(outcome.redo[:, 0], ~is_low)
    for find in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(find(result[:, :, 0]), find(wanted))
    assert_near([result[[0, 2], :, 0]], [wanted[[0, 2]]])


def test_these_find_a_section_that_is_left_out():
    sos, x = sections(4), draw(1, 5000)
    computed = run(Cascade.of_sections(sos[:-1]), x, np.zeros((6, 1)))[0]
    with pytest.raises(AssertionError):
        assert_near([computed], [signal.sosfilt(sos, x)])


def propagated(cascade, x, carry_in, length):
    """States after x from its summaries, a chunk of so many samples after the other."""
    states = carry_in[:, None, None]
    for left in range(0, x.size, length):
        part = x[None, left : left + length, None]
        states = propagate_filter(
            precompute_filter(cascade, Chunk((part,), part.shape, x.dtype)), states
        )
    return states[:, 0, 0]


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("a", [[1.0], [1.0, 0.0], [1.0, 0.0, 0.0, 0.0], [1.0, 0.4, 0.0]])
def test_coefficients_that_are_zero_keep_a_nan(a, value):
    """SciPy forgets it where a is a[0] alone."""
    b, x = np.array([0.0, -2.0, 0.5]), draw(100)
    x[3] = value
    cascade = Cascade.of_polynomials(b, np.array(a))
    wanted, carry_out = signal.lfilter(b, a, x, zi=np.zeros(cascade.states))
    chunk = Chunk((x[None, :, None],), (1, 100, 1), x.dtype)
    result = np.empty(chunk.shape)
    outcome = determine_filter(cascade, chunk, np.zeros((cascade.states, 1, 1)), result)
    np.testing.assert_allclose(result[0, :, 0], wanted)
    np.testing.assert_allclose(outcome.carry_out[:, 0, 0], carry_out)


@pytest.mark.parametrize(
    ("name", "length", "is_complex"),
    [
        ("ends in nan", 7, False), ("ends in nan", 7, True), ("alternating", 7, False),
        ("alternating", 70, False), ("taps", 1, True), ("sections", 1, False),
        ("sections", 7, False),
    ],
)  # fmt: skip
def test_summaries_carry_inf_as_the_loop_does(name, length, is_complex):
    rng = np.random.default_rng(7)
    b, a = {
        "ends in nan": ([1.0, 0.5], [1.0, -0.9, 0.3]),
        "alternating": ([1.0], [1.0, 0.5]),
        "taps": (np.arange(1.0, 5), [1.0]),
        "sections": (None, None),
    }[name]
    x = rng.normal(size=300) * (1 + 1j if is_complex else 1)
    x[3] = -np.inf
    if b is None:
        sos = np.c_[-rng.random((5, 3)), np.ones(5), -0.4 * rng.random((5, 2))]
        cascade = Cascade.of_sections(sos)
        wanted = signal.sosfilt(sos, x, zi=np.zeros((5, 2)))[1].ravel()
    else:
        cascade = Cascade.of_polynomials(b, a)
        wanted = signal.lfilter(b, a, x, zi=np.zeros(cascade.states))[1]
    computed = propagated(cascade, x, np.zeros(cascade.states, x.dtype), length)
    assert name == "taps" or not np.isfinite(wanted).any()
    np.testing.assert_allclose(computed, wanted)
