"""Scores of letters as kernels read them: narrow encodings, and profiles of the query.

An encoding has the narrowest dtype, so that a register holds most scores. A profile has the scores
of the query with each letter, sheared for lanes that are columns apart. A column's scores of all
rows of a strip are a part of the query's profile (Rognes & Seeberg 2000), one load a register. But
lane r is r columns behind the first one: it takes the profile of the letter r columns before.
Groups of lanes are loaded from the profiles of their own letters. Inside a group the binary digits
of r are the number of columns by which a lane is late: for each digit, lanes are chosen from the
registers of this column and of one, two or four columns before.

A column's scores of a strip are `ROWS` registers. A piece is as large as a register, but has all
rows of one or two groups of lanes: the scores that one letter loads are contiguous.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ....engines.cpu.compilation import INLINED, INNER
from ....engines.cpu.lanes import Lanes, pointer_to, shuffle_mask, store
from ....engines.cpu.simd import choose, constant_index, load_like
from ....engines.cpu.stack import stack_zeros
from ..recurrence import Edges
from ..scoring import Scoring, Table

ROWS = 4
"""Rows of a lane. Only the last row is shifted from lane to lane. GCUPS in int16 and int8: 11 and
21 with two rows, 13 and 26 with four, 14 and 26 with eight."""
# Most lanes in a group: a lane is up to seven columns behind, which takes three choices.
_GROUP = 8
MIN_CELLS_OF_BYTES = 1 << 19
"""Cells of a call from which scores of one byte are tried. Pairs of 400 letters took as long in two
bytes, 0.17 ms, and a score of more than one byte compiled both kernels."""
LATE = 7
"""Registers of earlier columns that a shear stores for each row."""


@dataclass(frozen=True)
class Encoding:
    """How scores are stored: as score − `base`, in int8, int16, int32, int64 or float64.

    `floor` and `ceiling` are stored values: the least of a score, which is a score of 0 in local
    alignments, and the largest one, to which a larger score may have saturated.
    """

    dtype: np.dtype[Any]
    base: float
    floor: float
    ceiling: float

    def parameters(self, scoring: Scoring) -> np.ndarray:
        """Return the scores that kernels need, in the order of MATCH, MISMATCH, ... there."""
        scores = scoring.match, scoring.mismatch, scoring.gap, scoring.extend
        return np.array([*scores, self.floor, self.ceiling], self.dtype)

    def encode(self, scores: np.ndarray, size: int) -> np.ndarray:
        """Return the scores of an edge, followed by zeros up to a size."""
        array = np.zeros(size, self.dtype)
        # Scores of gaps may be below the floor; they never become a maximum.
        array[: scores.size] = np.maximum(scores - self.base, self.floor)
        return array

    def decode(self, stored: np.ndarray, dtype: Any) -> np.ndarray:
        """Return stored values as scores of a dtype."""
        scores = stored.astype(dtype)
        scores += np.dtype(dtype).type(self.base)
        return scores


def encodings_for(
    scoring: Scoring,
    extremes: tuple[Any, Any, Any],
    shape: tuple[Any, Any],
    dtype: np.dtype[Any],
    everywhere: Any = True,
) -> Iterator[tuple[Encoding, Any]]:
    """Yield the encodings to try, and which tiles each may represent; the last one fits all.

    `extremes` and `shape`, as in `_score_bounds`, are numbers of one tile, or arrays of many;
    `everywhere` is true for each of these.
    """
    if dtype.kind == "f":
        yield Encoding(dtype, 0.0, 0.0 if scoring.is_local else -np.inf, np.inf), everywhere
        return
    lowest, highest = _score_bounds(scoring, *extremes, shape)
    cells = int(np.multiply(*shape).sum())
    for bits in (16, 32, 64) if cells < MIN_CELLS_OF_BYTES else (8, 16, 32, 64):
        limit, base, fits = 2 ** (bits - 1), 0, everywhere
        if bits < 64 and not _can_encode_steps(bits, scoring):
            continue
        if scoring.is_local and bits < 32:
            # Scores saturate at both ends of the range. A best score at the ceiling may be too low.
            base, fits = limit, everywhere & (extremes[2] < 2 * limit - 1)
        elif bits == 8:
            continue
        elif bits < 64:
            # Scores of one global tile may be stored as their differences from the lowest one.
            base = int(lowest) + limit if everywhere is True and not scoring.is_local else 0
            fits = (highest - base < limit) & (scoring.is_local | (lowest - base >= -limit))
        floor = -base if scoring.is_local else -limit
        yield Encoding(np.dtype(f"i{bits // 8}"), base, floor, limit - 1), fits


def _can_encode_steps(bits: int, scoring: Scoring) -> bool:
    """Return whether the scores of single columns fit; 32 bits do not saturate."""
    most = 2 ** (bits - 1 if bits < 32 else bits - 4)
    steps = scoring.highest, scoring.lowest, scoring.gap, scoring.extend
    return all(-most <= score < most for score in steps)


def extremes_of(carry_in: Edges) -> tuple[int, int, int]:
    """Return the least of the row above, the least of the left column, and the most of all."""
    arrays = [carry_in.row, carry_in.column]
    arrays += [] if carry_in.row_gaps is None else [carry_in.row_gaps, carry_in.column_gaps]
    most = max(int(array.max()) for array in arrays)
    return int(carry_in.row.min()), int(carry_in.column.min()), most


def _score_bounds(
    scoring: Scoring, above: Any, left: Any, most: Any, shape: tuple[Any, Any]
) -> tuple[Any, Any]:
    """Return bounds of all values computed in a tile, from the extremes of its edges.

    A cell scores at least as much as a gap from the edge above or to the left. It scores at most
    as much as an edge and as many matches as fit.
    """
    n, m = shape
    highest = most + np.minimum(n, m) * max(scoring.highest, 0)
    down = above + scoring.gap + n * scoring.extend
    right = left + scoring.gap + m * scoring.extend
    lowest = np.minimum(np.maximum(down, right), np.minimum(above, left))
    # E and F are at most a gap lower, and are extended by another character.
    return lowest + 2 * (scoring.gap + scoring.extend) + min(scoring.lowest, 0), highest


def narrow_codes(query: np.ndarray, target: np.ndarray, bits: int) -> Any:
    """Return both sequences as integers of so many bits, equal where they were equal.

    None if there are too many different letters.
    """
    dtype = f"i{bits // 8}"
    if query.itemsize * 8 <= bits:
        return query.astype(dtype), target.astype(dtype)
    least = min(query.min(), target.min())
    if int(max(query.max(), target.max())) - int(least) < 2**bits:
        return (query - least).astype(dtype), (target - least).astype(dtype)
    letters, ranks = np.unique(np.concatenate([query, target]), return_inverse=True)
    if letters.size > 2**bits:
        return None
    return ranks[: query.size].astype(dtype), ranks[query.size :].astype(dtype)


@lru_cache(maxsize=64)
def encode_table(table: Table, dtype: np.dtype[Any]) -> np.ndarray:
    """Return the scores of letters in int8 if it holds them, else in a dtype."""
    scores = np.array(table)
    is_small = dtype.kind == "i" and scores.min() >= -128 and scores.max() < 128
    return scores.astype(np.int8 if is_small else dtype)


@numba.njit(**INLINED)
def group_of(lanes: int) -> int:
    """Return the number of lanes in a group."""
    return min(_GROUP, max(1, lanes // ROWS))


def _halves(lanes: int) -> int:
    """Return the number of groups in a piece."""
    return lanes // ROWS // group_of.py_func(lanes)


@intrinsic
def load_piece(_: Any, profile: Any, letters: Any, at: Any, piece: Any, like: Any) -> Any:
    """Return a piece of the rows' scores with ``letters[at]``, and with letters before it.

    Group g takes the letter g · (lanes of a group) before. `profile` is (letter, group, row,
    lane). Piece 0 has groups 0 and 2; the next ones have 1 and 3, 4 and 6, 5 and 7; or each
    piece has one group.
    """
    lanes = Lanes(profile.dtype, like.width)
    group, halves = group_of.py_func(like.width), _halves(like.width)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        table, codes, at, piece = values[:4]
        data = context.make_array(letters)(context, builder, codes).data
        loaded = []
        for half in range(halves):
            number = _group_number(builder, piece, half, halves)
            late = builder.mul(number, constant_index(group))
            letter = builder.load(builder.gep(data, [builder.sub(at, late)]))
            letter = builder.zext(letter, constant_index(0).type)
            offset = builder.mul(letter, constant_index(ROWS * like.width))
            offset = builder.add(offset, builder.mul(number, constant_index(ROWS * group)))
            group_type = Lanes(profile.dtype, ROWS * group)
            pointer = pointer_to(context, builder, profile, table, offset, group_type)
            loaded.append(builder.load(pointer, align=profile.dtype.bitwidth // 8))
        if halves == 1:
            return loaded[0]
        return builder.shuffle_vector(*loaded, shuffle_mask(list(range(lanes.width))))

    return lanes(profile, letters, types.intp, types.intp, like), code


def _group_number(builder: Any, piece: Any, half: int, halves: int) -> Any:
    if halves == 1:
        return piece
    # Groups 0, 1, 4, 5 are in the first halves, groups 2, 3, 6, 7 in the second ones.
    high = builder.shl(builder.lshr(piece, constant_index(1)), constant_index(2))
    return builder.add(builder.or_(high, builder.and_(piece, constant_index(1))), constant_index(2 * half))


@intrinsic(prefer_literal=True)
def is_late(_: Any, lanes: Any, bit: Any) -> Any:
    """Return which lanes of a piece have a number in their group with this bit."""
    bit, group = bit.literal_value, group_of.py_func(lanes.width)
    mask = Lanes(types.boolean, lanes.width)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        is_set = [int(bool(r % group & bit)) for r in range(lanes.width)]
        return ir.Constant(context.get_value_type(mask), is_set)

    return mask(lanes, types.IntegerLiteral(bit)), code


@intrinsic
def rows_of_pieces(_: Any, pieces: Any) -> Any:
    """Return registers of rows, in the order of their lanes."""
    width = pieces.dtype.width
    group = group_of.py_func(width)

    def mask(chosen: Any) -> Any:
        return shuffle_mask([unit * group + r for unit in chosen for r in range(group)])

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        a, b, c, d = (builder.extract_value(values[0], k) for k in range(ROWS))
        units = width // group
        # Rows 0 and 2, and rows 1 and 3, of two pieces; then the halves of both pairs.
        first = [[u + row + k * units for u in range(0, units, 2) for k in (0, 1)] for row in (0, 1)]
        rows: list[Any] = [None] * ROWS
        for row in (0, 1):
            left = builder.shuffle_vector(a, b, mask(first[row]))
            right = builder.shuffle_vector(c, d, mask(first[row]))
            for upper in (0, 1):
                starts = range(2 * upper, units, 4)
                chosen = [base + u + k for base in (0, units) for u in starts for k in (0, 1)]
                rows[row + 2 * upper] = builder.shuffle_vector(left, right, mask(chosen))
        return context.make_tuple(builder, signature.return_type, rows)

    return pieces(pieces), code


@numba.njit(**INNER)
def fill_profiles(query: Any, table: Any, lanes: int, profiles: Any) -> None:
    """Write the scores of all rows with each letter: (strip, letter, group, row, lane)."""
    letters, size, group = table.shape[0], ROWS * lanes, group_of(lanes)
    codes = stack_zeros(size, query.dtype)
    for strip in range(-(-query.size // size)):
        for r in range(min(size, query.size - strip * size)):
            lane, row = r // ROWS, r % ROWS
            at = (lane // group * ROWS + row) * group + lane % group
            codes[at] = query[strip * size + r]
        for letter in range(letters):
            for at in range(size):
                profiles[strip, letter * size + at] = table[codes[at], letter]


@numba.njit(**INNER)
def shear(profile: Any, target: Any, first: int, steps: int, late: Any, out: Any, like: Any) -> None:
    """Write the scores of all rows of a strip in these steps: (step, piece).

    `profile`: profile of one strip, (letter, group, row, lane).
    `target`: codes of the target, after a register of padding.
    `late`: (ROWS * LATE * lanes,), pieces of earlier columns; written for the next steps.
    `like`: a register of H.
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
