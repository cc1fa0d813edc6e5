"""How dtypes, numbers and ufuncs are spelled in the C++ of ``kernels/scalar/numeric.cuh``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_CTYPES = {
    "?": "bool", "b": "signed char", "B": "unsigned char", "h": "short", "H": "unsigned short",
    "i": "int", "I": "unsigned int", "l": "long long", "L": "unsigned long long",
    "q": "long long", "Q": "unsigned long long", "e": "half", "f": "float", "d": "double",
    "F": "complex<float>", "D": "complex<double>",
}  # fmt: skip

_SAME_NAME = [
    "add", "subtract", "multiply", "negative", "positive", "absolute", "maximum", "minimum",
    "fmax", "fmin", "sqrt", "cbrt", "square", "reciprocal", "exp", "exp2", "expm1", "log",
    "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2",
    "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "hypot", "floor", "ceil", "trunc",
    "rint", "fabs", "sign", "signbit", "copysign", "isnan", "isinf", "isfinite", "ldexp",
    "power", "floor_divide", "remainder", "fmod", "conjugate", "less", "less_equal", "greater",
    "greater_equal", "equal", "not_equal", "logical_and", "logical_or", "logical_not",
    "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift",
    "right_shift", "deg2rad", "rad2deg",
]  # fmt: skip

FUNCTIONS: dict[str, tuple[str, ...]] = {name: (f"np_{name}",) for name in _SAME_NAME} | {
    "divide": ("np_divide",),
    "frexp": ("frexp_mantissa", "frexp_exponent"),
    "modf": ("modf_fraction", "modf_whole"),
}
"""C++ functions of every ufunc, one for each of its outputs."""


def ctype(dtype: np.dtype[Any]) -> str:
    """C++ type of a dtype.

    Examples
    --------
    >>> ctype(np.dtype("complex64"))
    'complex<float>'
    """
    try:
        return _CTYPES[dtype.char]
    except KeyError:
        raise TypeError(
            f"a GPU computes with integers, float32, float64, complex64 and complex128; got {dtype}"
        ) from None


def literal(value: Any, dtype: np.dtype[Any]) -> str:
    """Spell a number as a C++ constant with the bits that NumPy would store.

    Examples
    --------
    >>> literal(0.1, np.dtype("float32"))
    '0x1.99999a0000000p-4f'
    """
    number = np.asarray(value).astype(dtype)[()]
    if dtype.kind == "c":
        real = number.real.dtype
        return f"{ctype(dtype)}({literal(number.real, real)}, {literal(number.imag, real)})"
    if dtype.kind == "f":
        return _float_literal(float(number), ctype(dtype))
    if dtype.kind == "b":
        return "true" if number else "false"
    if dtype.kind == "i" and int(number) == np.iinfo(dtype).min:
        return f"cast<{ctype(dtype)}>(-{np.iinfo(dtype).max}LL - 1)"
    suffix = "ULL" if dtype.kind == "u" else "LL"
    return f"cast<{ctype(dtype)}>({int(number)}{suffix})"


def _float_literal(number: float, name: str) -> str:
    if math.isnan(number):
        return f"not_a_number<{name}>()"
    if math.isinf(number):
        return f"{'-' if number < 0 else ''}infinity<{name}>()"
    return number.hex() + ("f" if name == "float" else "")
