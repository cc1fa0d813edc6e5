"""Square blocks of numbers that are transposed in registers."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from .lanes import Lanes, pointer_to, shuffle_mask

BYTES = 64
"""Of a row of a block; it has as many rows as numbers in each."""


def _turned(builder: Any, rows: list[Any]) -> list[Any]:
    """Number j of row i becomes number i of row j, in squares of 2, 4, 8 and so on."""
    width, rows = len(rows), list(rows)
    apart = 1
    while apart < width:
        first = [width + j - apart if j & apart else j for j in range(width)]
        second = [width + j if j & apart else j + apart for j in range(width)]
        for i in (i for i in range(width) if not i & apart):
            x, y = rows[i], rows[i + apart]
            rows[i] = builder.shuffle_vector(x, y, shuffle_mask(first))
            rows[i + apart] = builder.shuffle_vector(x, y, shuffle_mask(second))
        apart *= 2
    return rows


@intrinsic
def turn(_: Any, source: Any, at: Any, stride: Any, target: Any, to: Any, step: Any) -> Any:
    """``target[to + j * step + i] = source[at + i * stride + j]`` for all i, j of a block.

    Of contiguous arrays of one dtype, counted as if they had one axis.
    """
    align = source.dtype.bitwidth // 8
    lanes = Lanes(source.dtype, BYTES // align)

    def places(context: Any, builder: Any, kind: Any, array: Any, first: Any, apart: Any) -> Any:
        for _ in range(lanes.width):
            yield pointer_to(context, builder, kind, array, first, lanes)
            first = builder.add(first, apart)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        sources = places(context, builder, signature.args[0], *values[:3])
        rows = [builder.load(pointer, align=align) for pointer in sources]
        targets = places(context, builder, signature.args[3], *values[3:])
        for row, pointer in zip(_turned(builder, rows), targets, strict=True):
            builder.store(row, pointer, align=align)
        return context.get_dummy_value()

    return types.void(source, *(types.intp,) * 2, target, *(types.intp,) * 2), code
