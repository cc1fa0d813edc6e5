"""Scores of groups of lanes, four rows each, and how they become registers of rows.

A column's scores of a strip are `ROWS` registers. A piece is as large as a register, but has all
rows of one group of lanes, or of two: what is loaded by one letter lies together.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .....engines.cpu.compilation import INLINED
from .....engines.cpu.simd.arithmetic import constant_index
from .....engines.cpu.simd.lanes import Lanes, pointer_to, shuffle_mask

ROWS = 4
"""Rows of a lane. Alignment in int16 and int8, GCUPS: two rows 11 and 21, four 13 and 26, eight
14 and 26; what is shifted from lane to lane is the last row alone."""
# Lanes of a group at most. Of eight, one is up to seven columns behind: three choices.
_GROUP = 8


@numba.njit(**INLINED)
def group_of(lanes: int) -> int:
    """Lanes of a group."""
    return min(_GROUP, max(1, lanes // ROWS))


def _halves(lanes: int) -> int:
    """Groups of a piece."""
    return lanes // ROWS // group_of.py_func(lanes)


@intrinsic
def load_piece(_: Any, profile: Any, letters: Any, at: Any, piece: Any, like: Any) -> Any:
    """The piece of the rows' scores with ``letters[at]``, and with those before it.

    Group g takes the letter g · (lanes of a group) before. `profile` is (letter, group, row,
    lane); piece 0 has groups 0 and 2, then come 1 and 3, 4 and 6, 5 and 7; or one group each.
    """
    lanes = Lanes(profile.dtype, like.width)
    group, halves = group_of.py_func(like.width), _halves(like.width)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        table, places, at, piece = values[:4]
        data = context.make_array(letters)(context, builder, places).data
        loaded = []
        for half in range(halves):
            number = _group_number(builder, piece, half, halves)
            late = builder.mul(number, constant_index(group))
            letter = builder.load(builder.gep(data, [builder.sub(at, late)]))
            letter = builder.zext(letter, constant_index(0).type)
            place = builder.mul(letter, constant_index(ROWS * like.width))
            place = builder.add(place, builder.mul(number, constant_index(ROWS * group)))
            kind = Lanes(profile.dtype, ROWS * group)
            pointer = pointer_to(context, builder, profile, table, place, kind)
            loaded.append(builder.load(pointer, align=profile.dtype.bitwidth // 8))
        if halves == 1:
            return loaded[0]
        return builder.shuffle_vector(*loaded, shuffle_mask(list(range(lanes.width))))

    return lanes(profile, letters, types.intp, types.intp, like), code


def _group_number(builder: Any, piece: Any, half: int, halves: int) -> Any:
    if halves == 1:
        return piece
    # 0, 1, 4, 5 for the first halves, 2 more for the second ones.
    high = builder.shl(builder.lshr(piece, constant_index(1)), constant_index(2))
    return builder.add(
        builder.or_(high, builder.and_(piece, constant_index(1))), constant_index(2 * half)
    )


@intrinsic(prefer_literal=True)
def is_late(_: Any, lanes: Any, bit: Any) -> Any:
    """Whether the number of a lane in its group has this bit, in a piece."""
    bit, group = bit.literal_value, group_of.py_func(lanes.width)
    mask = Lanes(types.boolean, lanes.width)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        held = [int(bool(r % group & bit)) for r in range(lanes.width)]
        return ir.Constant(context.get_value_type(mask), held)

    return mask(lanes, types.IntegerLiteral(bit)), code


@intrinsic
def rows_of_pieces(_: Any, pieces: Any) -> Any:
    """Registers of rows, in the order of their lanes."""
    width = pieces.dtype.width
    group = group_of.py_func(width)

    def mask(chosen: Any) -> Any:
        return shuffle_mask([unit * group + r for unit in chosen for r in range(group)])

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        a, b, c, d = (builder.extract_value(values[0], k) for k in range(ROWS))
        units = width // group
        # Rows 0 and 2, and rows 1 and 3, of two pieces; then the halves of both pairs.
        first = [
            [u + row + k * units for u in range(0, units, 2) for k in (0, 1)] for row in (0, 1)
        ]
        rows: list[Any] = [None] * ROWS
        for row in (0, 1):
            left = builder.shuffle_vector(a, b, mask(first[row]))
            right = builder.shuffle_vector(c, d, mask(first[row]))
            for upper in (0, 1):
                starts = range(2 * upper, units, 4)
                chosen = [u + k for base in (0, units) for u in _from(base, starts) for k in (0, 1)]
                rows[row + 2 * upper] = builder.shuffle_vector(left, right, mask(chosen))
        return context.make_tuple(builder, signature.return_type, rows)

    return pieces(pieces), code


def _from(base: int, starts: Any) -> list[int]:
    return [base + start for start in starts]
