"""The best cell of two parts of a grid: its ties and its laws."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgrec.grids.alignment.tiles import Best, best_cell

FOUND = st.builds(Best, st.integers(1, 3), st.integers(0, 3), st.integers(0, 3))
BESTS = st.just(Best()) | FOUND


@pytest.mark.parametrize(
    "ranked",
    [
        [Best(9, 5, 5), Best(8, 0, 0)],
        [Best(9, 5, 1), Best(9, 0, 2)],
        [Best(9, 1, 2), Best(9, 2, 2)],
        [Best(1, 7, 7), Best()],
        [Best(0.5, 7, 7), Best(0.25, 1, 1)],
    ],
)
def test_score_then_target_then_query_decide(ranked):
    for first, second in permutations(ranked):
        assert best_cell(first, second) == ranked[0]


@given(BESTS, BESTS, BESTS)
def test_best_cell_is_associative(a, b, c):
    assert best_cell(a, best_cell(b, c)) == best_cell(best_cell(a, b), c)


@given(BESTS, BESTS)
def test_best_cell_is_commutative(a, b):
    assert best_cell(a, b) == best_cell(b, a)


@given(BESTS)
def test_best_cell_is_idempotent_and_has_an_identity(a):
    assert best_cell(a, a) == a
    assert best_cell(a, Best()) == best_cell(None, a) == a
    assert best_cell(None) is None
