"""Scalars of kernels: the larger and the smaller of two, and indices that LLVM knows nothing of.

numba compiles `max` and `min` as a function for each pair of types, in 0.02 s.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _selection(comparison: str) -> Any:
    """Return an intrinsic of x and y that returns y if ``y comparison x``, else x."""

    def select(context: Any, x_type: Any, y_type: Any) -> Any:
        result_type = types.unliteral(context.unify_types(x_type, y_type))

        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            x, y = (
                context.cast(builder, value, value_type, result_type)
                for value, value_type in zip(values, signature.args, strict=True)
            )
            if isinstance(result_type, types.Float):
                is_y = builder.fcmp_ordered(comparison, y, x)
            elif result_type.signed:
                is_y = builder.icmp_signed(comparison, y, x)
            else:
                is_y = builder.icmp_unsigned(comparison, y, x)
            return builder.select(is_y, y, x)

        return result_type(x_type, y_type), code

    return intrinsic(select)


larger_of = _selection(">")
"""``larger_of(x, y)`` is ``max(x, y)``: x if y is nan."""
smaller_of = _selection("<")
"""``smaller_of(x, y)`` is ``min(x, y)``: x if y is nan."""


@intrinsic
def opaque(_: Any, index: Any) -> Any:
    """Return the index; LLVM cannot know that it is the same.

    Before a loop over rows LLVM may check once whether the memory of all rows that are read overlaps
    that of all rows that are written. It always does if both are rows of one array, and the loop is
    then not vectorised. With opaque indices LLVM checks row by row.
    """

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        function = ir.FunctionType(values[0].type, [values[0].type])
        return builder.asm(function, "", "=r,0", [values[0]], False)

    index = types.unliteral(index)
    return index(index), code
