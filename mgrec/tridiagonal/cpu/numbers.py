"""Numbers of several systems side by side, real or complex, as one value in numba.

An elimination mostly waits for the choice of a pivot and the division by it: alone, an unknown
took 38 ns. So partitions go side by side, 64 bytes of each number at once, with choices in
place of branches: 11 ns. Operations are written out as LLVM's instructions where they are used:
as compiled functions of their own they took 5.4 s to compile in float64, so 3.4 s.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

from . import arithmetic
from .arithmetic import Vectors

BYTES = 64


class Numbers(types.Type):  # type: ignore[misc]
    """numba type of `width` numbers of one dtype."""

    def __init__(self, dtype: Any, width: int) -> None:
        self.dtype, self.width = dtype, width
        super().__init__(name=f"Numbers({dtype}, {width})")

    @property
    def sizes(self) -> Numbers:
        """The type of their absolute values."""
        return Numbers(getattr(self.dtype, "underlying_float", self.dtype), self.width)


@register_model(Numbers)
class _NumbersModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, numbers: Numbers) -> None:
        real = manager.lookup(numbers.sizes.dtype).get_value_type()
        vector = ir.VectorType(real, numbers.width)
        is_real = numbers == numbers.sizes
        pair = ir.LiteralStructType([vector, vector])
        super().__init__(manager, numbers, vector if is_real else pair)


def vectors_of(builder: Any, value: Any) -> Vectors:
    """A value of the type Numbers as `arithmetic` has it."""
    if isinstance(value.type, ir.VectorType):
        return [value]
    return [builder.extract_value(value, 0), builder.extract_value(value, 1)]


def value_of(builder: Any, vectors: Vectors) -> Any:
    if len(vectors) == 1:
        return vectors[0]
    return cgutils.make_anonymous_struct(builder, vectors)


def _each(builder: Any, type_: Any, value: Any) -> list[Vectors]:
    """The numbers of a tuple, or of one number."""
    if isinstance(type_, Numbers):
        return [vectors_of(builder, value)]
    return [vectors_of(builder, item) for item in cgutils.unpack_tuple(builder, value)]


def _operate(function: Any, instruction: Callable[..., Vectors]) -> None:
    @intrinsic
    def operate(_: Any, x: Any, y: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            operands = (vectors_of(builder, value) for value in values)
            return value_of(builder, instruction(builder, *operands))

        return x(x, y), code

    @overload(function, strict=False)
    def _typed(x: Any, y: Any) -> Any:
        return (lambda x, y: operate(x, y)) if isinstance(x, Numbers) else None


_operate(operator.add, arithmetic.add)
_operate(operator.sub, arithmetic.subtract)
_operate(operator.mul, arithmetic.multiply)
_operate(operator.truediv, arithmetic.divide)


@intrinsic
def constant(_: Any, like: Any, value: Any) -> Any:
    """A real value as numbers of the type of `like`."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        vectors = vectors_of(builder, values[0])
        vector = vectors[0].type
        number = context.cast(builder, values[1], value, like.sizes.dtype)
        empty, first = ir.Constant(vector, ir.Undefined), ir.Constant(ir.IntType(32), 0)
        mask = ir.Constant(ir.VectorType(ir.IntType(32), like.width), None)
        full = builder.shuffle_vector(builder.insert_element(empty, number, first), empty, mask)
        return value_of(builder, [full, ir.Constant(vector, None)][: len(vectors)])

    return like(like, value), code


@intrinsic
def magnitude(_: Any, x: Any) -> Any:
    """The absolute value; of complex numbers, the larger one of the two parts'."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return arithmetic.magnitude(builder, vectors_of(builder, values[0]))

    return x.sizes(x), code


@intrinsic
def scale_of(_: Any, size: Any) -> Any:
    """The power of two that brings `size`, not negative, to 1 or more and below 4.

    Multiplying by it rounds nothing. Subnormal numbers stay below 1; 0 has 1.
    """

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return arithmetic.scale_of(builder, values[0])

    return size(size), code


@intrinsic
def either(_: Any, x: Any, y: Any, one: Any, other: Any) -> Any:
    """`one` where x > y, else `other`: numbers, or rows of them."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        condition = arithmetic.is_larger(builder, *values[:2])
        pairs = zip(*(_each(builder, one, value) for value in values[2:]), strict=True)
        chosen = [value_of(builder, arithmetic.select(builder, condition, *pair)) for pair in pairs]
        return chosen[0] if isinstance(one, Numbers) else context.make_tuple(builder, one, chosen)

    return one(x, y, one, other), code


@intrinsic
def larger(_: Any, x: Any, y: Any) -> Any:
    """x where x > y, else y."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.select(arithmetic.is_larger(builder, *values), *values)

    return x(x, y), code


@intrinsic
def is_any_larger(_: Any, x: Any, y: Any) -> Any:
    """Whether x > y anywhere."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        bits = ir.IntType(x.width)
        found = builder.bitcast(arithmetic.is_larger(builder, *values), bits)
        return builder.icmp_unsigned("!=", found, ir.Constant(bits, 0))

    return types.boolean(x, y), code


@intrinsic
def eliminated(_: Any, row: Any, pivot: Any) -> Any:
    """`row` less as much of `pivot` as takes its leading unknown away; one number fewer."""
    rest = types.UniTuple(row.dtype, row.count - 1)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        numbers, pivots = (_each(builder, row, value) for value in values)
        m = arithmetic.divide(builder, numbers[0], pivots[0])
        less = [
            arithmetic.subtract(builder, a, arithmetic.multiply(builder, m, b))
            for a, b in zip(numbers[1:], pivots[1:], strict=True)
        ]
        return context.make_tuple(builder, rest, [value_of(builder, x) for x in less])

    return rest(row, pivot), code
