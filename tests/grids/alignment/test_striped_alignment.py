"""Tiles in stripes have the edges and the best of the loop, or are left to antidiagonals."""

import numpy as np
import pytest
from test_cpu_alignment import INT, assert_same, by_table, draw, draw_carry_in, loop

from mgrec.engines.cpu.simd.arithmetic import REGISTER
from mgrec.grids.alignment.cpu import striped, tile

pytestmark = pytest.mark.extended
SIZES = [1, 2, REGISTER - 1, REGISTER, REGISTER + 1, 3 * REGISTER + 20]


@pytest.fixture
def results(monkeypatch):
    """What stripes give of every tile that they may take, of any size."""
    found, run = [], striped.run_striped
    monkeypatch.setattr(striped, "_SEGMENTS", 0)
    monkeypatch.setattr(tile, "run_striped", lambda *given: found.append(run(*given)) or found[-1])
    return found


@pytest.mark.parametrize(("gap", "extend"), [(-3, -1), (-4, 0), (-11, -2)])
def test_tiles_of_any_size_are_those_of_the_loop(results, gap, extend):
    generator, scoring = np.random.default_rng(0), by_table(gap, extend)
    for n in SIZES:
        for m in (1, 7, 90):
            pair = draw(generator, n, m, kinds=5)
            carry_in = draw_carry_in(generator, n, m, INT, scoring)
            have = tile.determine_tile(scoring, pair, carry_in, (3, 5), INT)
            assert_same(have, loop(scoring, pair, carry_in, (3, 5), INT))
    assert any(found is not None for found in results)


def test_gaps_that_are_carried_too_far_are_left_to_antidiagonals(results):
    """A gap that costs nothing to extend reaches all rows below the letter that it follows."""
    scoring = by_table(-1, 0)
    query = np.array([4] + [0] * (20 * REGISTER), np.uint8)
    target = np.array([4] + [1] * 300, np.uint8)
    carry_in = draw_carry_in(np.random.default_rng(0), query.size, target.size, INT, scoring)
    have = tile.determine_tile(scoring, (query, target), carry_in, (0, 0), INT)
    assert results == [None]
    assert_same(have, loop(scoring, (query, target), carry_in, (0, 0), INT))


def test_the_first_numbers_that_do_not_hold_the_best(results):
    scoring, letters = by_table(-11, -1), np.zeros(REGISTER * 3, np.uint8)
    carry_in = draw_carry_in(np.random.default_rng(0), letters.size, letters.size, INT, scoring)
    have = tile.determine_tile(scoring, (letters, letters), carry_in, (0, 0), INT)
    assert have.best.score > 255
    assert_same(have, loop(scoring, (letters, letters), carry_in, (0, 0), INT))
