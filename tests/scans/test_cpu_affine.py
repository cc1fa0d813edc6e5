"""The kernels of w = s·w + t on a CPU: tiles, blocks, columns, and when the loop takes over."""

import numpy as np
import oracles
import pytest
from internals import BLOCK, LONG, MIN_STREAMED_BYTES, TILE, Judge, safe_limits

import mgrec

# The tests of the public functions run the same kernels.
pytestmark = pytest.mark.extended

LENGTHS = [64, BLOCK - 1, BLOCK, BLOCK + TILE - 1, LONG - 1, LONG, LONG + 7, LONG + TILE, 5 * BLOCK]


each_dtype = pytest.mark.parametrize("dtype", [np.float64, np.float32])


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setenv("MGREC_NUM_THREADS", "1")


def loop(s, t, carry_in):
    return oracles.loop(oracles.linear, (s, t), carry_in, t.dtype, axis=1)


def determine(s, t, carry_in, result=None):
    return mgrec.linear_recurrence(s, t, carry_in, axis=1, out=result)


def draw(shape, dtype, seed=0):
    generator = np.random.default_rng(seed)
    s, t = generator.uniform(-1, 1, (2, *shape)).astype(dtype)
    return s, t, generator.uniform(-1, 1, (shape[0], shape[2])).astype(dtype)


def judge(s, t, carry_in, result):
    for row in range(t.shape[0]):
        judged = Judge(t.dtype, float(carry_in[row, 0]))
        judged.add(np.broadcast_to(s, t.shape)[row, :, 0].copy(), t[row, :, 0], result[row, :, 0])
        assert judged.holds


@pytest.mark.parametrize("steps", LENGTHS)
@each_dtype
def test_rows_of_any_length_are_within_the_bound(steps, dtype):
    s, t, carry_in = draw((2, steps, 1), dtype)
    judge(s, t, carry_in, determine(s, t, carry_in))
    constant = np.full((1, 1, 1), 0.9, dtype)
    judge(constant, t, carry_in, determine(constant, t, carry_in))


def placed(s, t, carry_in, offset):
    """Determine at an offset in memory whose other numbers must stay."""
    memory = np.full(t.size + 16, np.nan, t.dtype)
    result = memory[offset : offset + t.size].reshape(t.shape)
    determine(s, t, carry_in, result)
    assert np.isnan(memory[:offset]).all()
    assert np.isnan(memory[offset + t.size :]).all()
    return result


@pytest.mark.parametrize("offset", [0, 1, 2, 5, 8])
@each_dtype
def test_large_results_are_whole_and_the_same_wherever_they_lie(offset, dtype):
    steps = MIN_STREAMED_BYTES // np.dtype(dtype).itemsize + 13
    s, t, carry_in = draw((1, steps, 1), dtype)
    for coefficient in (s, np.full((1, 1, 1), 0.9, dtype)):
        result = placed(coefficient, t, carry_in, offset)
        judge(coefficient, t, carry_in, result)
        np.testing.assert_array_equal(result, determine(coefficient, t, carry_in))


@pytest.mark.parametrize("size", [1e-40, 1e-25, 1e-3, 0.0, 1.5, 3.0])
@each_dtype
def test_coefficients_of_any_size_are_within_the_bound(size, dtype):
    s, t, carry_in = draw((1, 3 * BLOCK, 1), dtype)
    # Up and down by turns: products of eight steps stay, those of fewer may not.
    s[:, 10 : 2 * BLOCK : 2] = size
    s[:, 11 : 2 * BLOCK : 2] = min(1 / size, 1e30) if size else 1
    judge(s, t, carry_in, determine(s, t, carry_in))


@each_dtype
def test_products_that_underflow_within_a_tile_are_done_again(dtype):
    s, t, carry_in = np.ones((1, 128, 1), dtype), np.zeros((1, 128, 1), dtype), [[2.0**20]]
    tiny = np.sqrt(np.finfo(dtype).tiny) / 4
    s[0, 64:68, 0] = tiny, tiny, 1 / tiny, 1 / tiny
    carry_in = np.array(carry_in, dtype)
    np.testing.assert_array_equal(determine(s, t, carry_in), loop(s, t, carry_in))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, LONG + 100, 3 * BLOCK - 1])
@pytest.mark.parametrize("operand", [0, 1])
def test_a_row_with_what_is_not_finite_is_that_of_the_loop(value, place, operand):
    *operands, carry_in = draw((1, 3 * BLOCK, 1), np.float64)
    operands[operand][0, place] = value
    result = determine(*operands, carry_in)
    wanted = loop(*operands, carry_in)
    np.testing.assert_array_equal(np.isnan(result), np.isnan(wanted))
    np.testing.assert_array_equal(result[np.isinf(wanted)], wanted[np.isinf(wanted)])
    assert np.isfinite(result[np.isfinite(wanted)]).all()


@pytest.mark.parametrize("spike", [0.5, 0.999, 1.0])
@each_dtype
def test_a_row_that_comes_near_overflow_has_the_bits_of_the_loop(spike, dtype):
    s, t, carry_in = draw((1, 3 * BLOCK, 1), dtype)
    t[0, 700], s[0, 701] = np.finfo(dtype).max * dtype(spike), 0
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(determine(s, t, carry_in), loop(s, t, carry_in))
    assert np.finfo(dtype).max * spike > safe_limits(np.dtype(dtype))[0]


@pytest.mark.parametrize("columns", [8, 9, 16, 17, 31, 100])
@pytest.mark.parametrize("steps", [1, 3, 4, 9])
@pytest.mark.parametrize("s_shape", ["full", "one", "row"])
@each_dtype
def test_columns_have_the_bits_of_the_loop(columns, steps, s_shape, dtype):
    s, t, carry_in = draw((2, steps, columns), dtype)
    s = {"full": s, "one": s[:1, :1, :1], "row": np.ascontiguousarray(s[:, :1, :1])}[s_shape]
    np.testing.assert_array_equal(determine(s, t, carry_in), loop(s, t, carry_in))


@pytest.mark.parametrize("columns", [16, 1000, 4096])
@pytest.mark.parametrize("offset", [0, 2, 5])
def test_large_tables_have_the_bits_of_the_loop_wherever_they_lie(columns, offset):
    s, t, carry_in = draw((1, MIN_STREAMED_BYTES // 8 // columns + 1, columns), np.float64)
    for coefficient in (s, s[:, :1, :1].copy()):
        result = placed(coefficient, t, carry_in, offset)
        np.testing.assert_array_equal(result, loop(coefficient, t, carry_in))
