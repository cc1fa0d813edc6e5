"""A bit a lane: whether a number has a sign, or is 0."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _bits(lanes: Any) -> Any:
    return types.Integer.from_bitwidth(lanes.width, signed=False)


@intrinsic
def signs(_: Any, lanes: Any) -> Any:
    """Which lanes have a sign, the first in the lowest bit."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        vector = ir.VectorType(ir.IntType(lanes.dtype.bitwidth), lanes.width)
        zero = ir.Constant(vector, [0] * lanes.width)
        condition = builder.icmp_signed("<", builder.bitcast(values[0], vector), zero)
        return builder.bitcast(condition, ir.IntType(lanes.width))

    return _bits(lanes)(lanes), code


@intrinsic
def zeros(_: Any, lanes: Any) -> Any:
    """Which lanes are 0, the first in the lowest bit."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        zero = ir.Constant(values[0].type, [0.0] * lanes.width)
        condition = builder.fcmp_ordered("==", values[0], zero)
        return builder.bitcast(condition, ir.IntType(lanes.width))

    return _bits(lanes)(lanes), code
