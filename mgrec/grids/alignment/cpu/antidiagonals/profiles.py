"""Scores by a table of letters, as the lanes of a strip need them.

A column's scores of all rows of a strip are a part of the query's profile (Rognes & Seeberg 2000),
one load a register. But lane r is r columns behind the first one: lane r of a register takes the
profile of the letter r columns before. Groups of lanes are loaded from the profiles of their own
letters, and inside a group the binary digits of r say by how many columns a lane is late: one
choice of lanes a digit, between the registers of this column and of one, two or four before it.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from .....engines.cpu.compilation import INNER
from .....engines.cpu.simd.arithmetic import choose, load_like
from .....engines.cpu.simd.lanes import store
from .pieces import ROWS, group_of, is_late, load_piece

LATE = 7
"""Registers of columns before that a shear holds, a row."""


@numba.njit(**INNER)
def fill_profiles(query: Any, table: Any, lanes: int, profiles: Any) -> None:
    """Scores of all rows with every letter: (strip, letter, group, row, lane)."""
    letters, size, group = table.shape[0], ROWS * lanes, group_of(lanes)
    codes = np.zeros(size, query.dtype)
    for strip in range(-(-query.size // size)):
        for r in range(min(size, query.size - strip * size)):
            lane, row = r // ROWS, r % ROWS
            at = (lane // group * ROWS + row) * group + lane % group
            codes[at] = query[strip * size + r]
        for letter in range(letters):
            for at in range(size):
                profiles[strip, letter * size + at] = table[codes[at], letter]


@numba.njit(**INNER)
def shear(
    profile: Any, target: Any, first: int, steps: int, late: Any, out: Any, like: Any
) -> None:
    """Scores of all rows of a strip in these steps: (step, piece).

    Parameters
    ----------
    profile : array
        Of one strip: (letter, group, row, lane).
    target : array
        Codes of the target after a register of others.
    late : array (ROWS * LATE * lanes,)
        Pieces of columns before; written for the next steps.
    like : lanes
        As many as there are in a register of H.
    """
    width = late.size // (ROWS * LATE)
    for piece in range(ROWS):
        here = piece * LATE * width
        one = load_like(late, here, like)
        two_b = load_like(late, here + width, like)
        two_a = load_like(late, here + 2 * width, like)
        four_d = load_like(late, here + 3 * width, like)
        four_c = load_like(late, here + 4 * width, like)
        four_b = load_like(late, here + 5 * width, like)
        four_a = load_like(late, here + 6 * width, like)
        for step in range(steps):
            x = load_piece(profile, target, width + first + step, piece, like)
            y = choose(is_late(x, 1), one, x)
            z = choose(is_late(x, 2), two_b, y)
            store(out, (step * ROWS + piece) * width, choose(is_late(x, 4), four_d, z))
            one, two_b, two_a = x, two_a, y
            four_d, four_c, four_b, four_a = four_c, four_b, four_a, z
        store(late, here, one)
        store(late, here + width, two_b)
        store(late, here + 2 * width, two_a)
        store(late, here + 3 * width, four_d)
        store(late, here + 4 * width, four_c)
        store(late, here + 5 * width, four_b)
        store(late, here + 6 * width, four_a)
