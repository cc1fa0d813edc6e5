"""Rational recurrences: infinity is a state, and no product leaves the range of numbers."""

import dask.array as da
import numpy as np
import pytest
from oracles import rational_bound

import mgrec

INF = np.inf


def in_ways(a, b, c, d, initial):
    """The results on one thread and over Dask chunks of 100 steps."""
    a = np.asarray(a, float)
    yield mgrec.rational_recurrence(a, b, c, d, initial)
    chunks = da.from_array(a, chunks=100)
    yield mgrec.rational_recurrence(chunks, b, c, d, initial).compute(scheduler="sync")


@pytest.mark.parametrize(
    ("a", "b", "c", "d", "initial", "wanted"),
    [
        # A zero denominator is infinity, and the next step returns; infinity is a first state.
        ([2.0, 3.0, 5.0], 1.0, 1.0, [-1.0, 4.0, 0.0], 1.0, [INF, 3.0, 16 / 3]),
        ([6.0, 1.0], 5.0, 3.0, 1.0, INF, [2.0, 1.0]),
        ([6.0, 1.0], 5.0, 3.0, 1.0, -INF, [2.0, 1.0]),
        # A singular map at its blind spot; nan stays.
        (np.ones(3), [0.0, 1.0, 0.0], [0.0, 1.0, 0.0], 1.0, -1.0, [-1.0, np.nan, np.nan]),
        (np.r_[1.0, np.nan, np.ones(200)], 1.0, 1.0, 2.0, 1.0, [2 / 3] + 201 * [np.nan]),
        # A state at a repelling fixed point of a long chunk, where the loop stays at 0.
        (np.full(300, 2.0), 0.0, 0.0, 1.0, 0.0, np.zeros(300)),
        (np.full(300, 2.0), 0.0, 1.0, 1.0, 0.0, np.zeros(300)),
    ],
)
def test_special_states(a, b, c, d, initial, wanted):
    for p in in_ways(a, b, c, d, initial):
        np.testing.assert_allclose(p, wanted, 1e-15)


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300])
def test_products_of_huge_and_tiny_maps_keep_their_ratio(scale):
    generator = np.random.default_rng(0)
    a, b, c, d = generator.uniform(0.5, 2.0, (4, 1000))
    wanted = mgrec.rational_recurrence(a, b, c, d, 1.0)
    for p in in_ways(scale * a, scale * b, scale * c, scale * d, 1.0):
        np.testing.assert_allclose(p, wanted, 1e-12)


def test_products_of_maps_near_the_smallest_number_keep_their_digits():
    """As of tridiagonal systems whose rows are tiny; a scale by a power of 2 changes no result."""
    generator, shape = np.random.default_rng(1), (2000, 57)
    du, dl = generator.uniform(-1, 1, (2, *shape))
    d = generator.choice([-1, 1], shape) * generator.uniform(1.01, 3, shape) * (abs(du) + abs(dl))
    wanted = mgrec.rational_recurrence(0, du, -dl, d, 0.0)
    chunks = [da.from_array(2.0**-1018 * x, chunks=(2000, 10)) for x in (du, -dl, d)]
    p = mgrec.rational_recurrence(0, *chunks, 0.0).compute(scheduler="sync")
    np.testing.assert_allclose(p, wanted, 1e-13)


@pytest.mark.parametrize("chunk", [60, 20, 7])
def test_error_of_operands_of_any_sign_is_within_the_bound(chunk):
    generator = np.random.default_rng(1)
    a, b, c, d = generator.normal(size=(4, 80, 60))
    exact, bound = rational_bound(a, b, c, d, 1.0, float)
    chunks = [da.from_array(x, chunks=(4, chunk)) for x in (a, b, c, d)]
    p = mgrec.rational_recurrence(*chunks, 1.0).compute(scheduler="sync")
    # The bound is one of first order: it says nothing where it comes near 1.
    told = bound < 1e-3 * np.maximum(np.abs(exact), 1)
    assert told.mean() > 0.3
    assert (np.abs(p - exact) <= 1.01 * bound)[told].all()


@pytest.mark.parametrize("c", [0.0, 1.0])
def test_a_repelling_fixed_point_through_a_product_of_2_to_the_2000(c):
    a = da.full(4000, 2.0, chunks=2000)
    p = mgrec.rational_recurrence(a, 0.0, c, 1.0, 0.0).compute(scheduler="sync")
    np.testing.assert_array_equal(p, np.zeros(4000))


@pytest.mark.parametrize("seed", range(3))
def test_an_empty_column_beside_one_that_shrinks_by_2_to_the_4000(seed):
    # p = 4·(a·p + 1): a step with a = 0 empties the column of infinity, and the other goes on.
    a = np.full(4000, 0.25)
    a[np.random.default_rng(seed).random(4000) < 0.01] = 0.0
    chunked = mgrec.rational_recurrence(da.from_array(a, chunks=2000), 1.0, 0.0, 0.25, 1.0)
    p, wanted = 1.0, []
    for x in a:
        p = 4 * (x * p + 1)
        wanted.append(p)
    np.testing.assert_allclose(chunked.compute(scheduler="sync"), wanted, 1e-12)


def test_a_state_above_the_largest_number_is_right_again_in_the_next_chunk():
    a = np.ones(300)
    a[:12], a[12:24] = 2.0**100, 2.0**-100
    whole, chunked = in_ways(a, 0.0, 0.0, 1.0, 1.0)
    np.testing.assert_array_equal(whole[11:], np.full(289, INF))
    np.testing.assert_array_equal(chunked, np.where(np.arange(300) < 100, whole, 1.0))
