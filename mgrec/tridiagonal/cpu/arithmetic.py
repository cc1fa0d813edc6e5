"""LLVM's instructions for numbers side by side: one vector of real ones, two of complex ones.

What is called `x` here is a list of these vectors.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

Vectors = list[Any]


def _integers(vector: Any) -> tuple[Any, int, int]:
    """The type of the bits of a vector's numbers, their mantissa's width, the highest exponent."""
    is_wide = isinstance(vector.type.element, ir.DoubleType)
    bits = ir.VectorType(ir.IntType(64 if is_wide else 32), vector.type.count)
    return bits, *((52, 0x7FF) if is_wide else (23, 0xFF))


def filled(kind: Any, value: float) -> Any:
    """A vector type's constant."""
    return ir.Constant(kind, [value] * kind.count)


def multiply(builder: Any, x: Vectors, y: Vectors) -> Vectors:
    """x·y; y may be real where x is complex."""
    if len(y) == 1:
        return [builder.fmul(part, y[0]) for part in x]
    (a, b), (c, d) = x, y
    real = builder.fsub(builder.fmul(a, c), builder.fmul(b, d))
    return [real, builder.fadd(builder.fmul(a, d), builder.fmul(b, c))]


def subtract(builder: Any, x: Vectors, y: Vectors) -> Vectors:
    return [builder.fsub(a, b) for a, b in zip(x, y, strict=True)]


def add(builder: Any, x: Vectors, y: Vectors) -> Vectors:
    return [builder.fadd(a, b) for a, b in zip(x, y, strict=True)]


def select(builder: Any, condition: Any, x: Vectors, y: Vectors) -> Vectors:
    return [builder.select(condition, a, b) for a, b in zip(x, y, strict=True)]


def is_larger(builder: Any, x: Any, y: Any) -> Any:
    return builder.fcmp_ordered(">", x, y)


def magnitude(builder: Any, x: Vectors) -> Any:
    """The absolute value; of complex numbers, the larger one of the two parts'."""
    bits, mantissa, top = _integers(x[0])
    mask = filled(bits, (top << mantissa) + (1 << mantissa) - 1)
    sizes = [
        builder.bitcast(builder.and_(builder.bitcast(part, bits), mask), part.type) for part in x
    ]
    if len(sizes) == 1:
        return sizes[0]
    return builder.select(is_larger(builder, *sizes), *sizes)


def scale_of(builder: Any, size: Any) -> Any:
    """See :func:`.numbers.scale_of`."""
    bits, mantissa, top = _integers(size)
    # The exponent e of 2**(e - bias) becomes 2·bias - e, at least_pivot 1: that of a normal number.
    exponent = builder.lshr(builder.bitcast(size, bits), filled(bits, mantissa))
    highest = filled(bits, top - 2)
    is_low = builder.icmp_unsigned("<", exponent, highest)
    exponent = builder.select(is_low, exponent, highest)
    power = builder.shl(builder.sub(filled(bits, top - 1), exponent), filled(bits, mantissa))
    is_zero = builder.fcmp_ordered("==", size, filled(size.type, 0.0))
    return builder.select(is_zero, filled(size.type, 1.0), builder.bitcast(power, size.type))


def divide(builder: Any, x: Vectors, y: Vectors) -> Vectors:
    """x/y, where abs(x) is not much larger than abs(y)."""
    if len(y) == 1:
        return [builder.fdiv(part, y[0]) for part in x]
    scale = [scale_of(builder, magnitude(builder, y))]
    x, (c, d) = multiply(builder, x, scale), multiply(builder, y, scale)
    square = builder.fadd(builder.fmul(c, c), builder.fmul(d, d))
    inverse = builder.fdiv(filled(square.type, 1.0), square)
    minus = builder.fsub(filled(d.type, -0.0), d)
    return multiply(builder, multiply(builder, x, [c, minus]), [inverse])
