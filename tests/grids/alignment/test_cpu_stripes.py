"""Alignments by a table, in stripes: any sizes and chunks have the scores of the plain loop."""

import numpy as np
import pytest
from alignments import by_the_loop
from test_cpu_alignment import by_table, check, draw

import mgrec
from mgrec.engines.cpu.simd import REGISTER
from mgrec.grids.alignment.cpu import phases, striped

extended = pytest.mark.extended


@pytest.fixture
def results(monkeypatch):
    """Results of stripes for every tile that they may take, of any size."""
    found, run = [], striped.align_striped
    monkeypatch.setattr(striped, "_SEGMENTS", 0)
    monkeypatch.setattr(phases, "align_striped", lambda *given: found.append(run(*given)) or found[-1])
    return found


def test_the_best_path_goes_through_the_corners_of_chunks(results):
    same, _ = draw(np.random.default_rng(0), REGISTER + 20, 0, kinds=5)
    check((same, same), by_table(-100, -99, 2 * np.eye(5, dtype=int) - 1), (30, 30))
    assert all(found is not None for found in results)


@extended
@pytest.mark.parametrize(("gap", "extend"), [(-3, -1), (-4, 0), (-11, -2)])
def test_stripes_of_any_size_are_those_of_the_loop(results, gap, extend):
    generator = np.random.default_rng(0)
    for n in (1, 2, REGISTER - 1, REGISTER, REGISTER + 1, 3 * REGISTER + 20):
        for m in (1, 7, 90):
            pair = draw(generator, n, m, kinds=5)
            check(pair, by_table(gap, extend), (n // 3 + 1, m // 2 + 1))
    assert any(found is not None for found in results)


@extended
def test_tiles_that_stripes_leave_to_antidiagonals(results):
    """A gap that costs nothing to extend reaches all rows below; a score is beyond a byte."""
    zeros = np.zeros(20 * REGISTER, np.uint8)
    far = np.append(4, zeros), np.array([4] + [1] * 300), by_table(-1, 0)
    large = zeros[: 3 * REGISTER], zeros[: 3 * REGISTER], by_table(-11, -1)
    for query, target, scores in (far, large):
        results.clear()
        pair = query.astype(np.uint8), target.astype(np.uint8)
        end = mgrec.smith_waterman(*pair, **scores)
        assert [result is None for result in results] == [scores is far[2]]
        assert end == by_the_loop(pair, scores)[1]
    assert end[0] > 255
