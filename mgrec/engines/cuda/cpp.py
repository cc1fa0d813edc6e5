"""C++ text of traced functions: dtypes, numbers and ufuncs, and branches around ``np.where``.

The functions that the text calls are in ``engines/cuda/numeric.cuh``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

_CTYPES = {
    "?": "bool", "b": "signed char", "B": "unsigned char", "h": "short", "H": "unsigned short",
    "i": "int", "I": "unsigned int", "l": "long long", "L": "unsigned long long",
    "q": "long long", "Q": "unsigned long long", "e": "half", "E": "bfloat16", "f": "float",
    "d": "double", "F": "complex<float>", "D": "complex<double>",
}  # fmt: skip

_PREFIXED = """
    add subtract multiply negative positive absolute maximum minimum fmax fmin sqrt cbrt square
    reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan arctan2 sinh
    cosh tanh arcsinh arccosh arctanh hypot floor ceil trunc rint fabs sign signbit copysign isnan
    isinf isfinite ldexp power floor_divide remainder fmod conjugate less less_equal greater
    greater_equal equal not_equal logical_and logical_or logical_not logical_xor bitwise_and
    bitwise_or bitwise_xor invert left_shift right_shift deg2rad rad2deg
""".split()

FUNCTIONS: dict[str, tuple[str, ...]] = {name: (f"np_{name}",) for name in _PREFIXED} | {
    "divide": ("np_divide",),
    "frexp": ("frexp_mantissa", "frexp_exponent"),
    "modf": ("modf_fraction", "modf_whole"),
}
"""C++ functions of each ufunc, one for each of its outputs."""


def ctype(dtype: np.dtype[Any]) -> str:
    """Return the C++ type of a dtype.

    >>> ctype(np.dtype("complex64"))
    'complex<float>'
    """
    try:
        return _CTYPES[dtype.char]
    except KeyError:
        raise TypeError(
            f"a GPU computes with integers, float32, float64, complex64 and complex128; got {dtype}"
        ) from None


def print_definitions(header: str, constants: dict[str, int], **types: np.dtype[Any]) -> str:
    """Return the start of a program: a header, numbers and flags, and types."""
    text = "\n#define DEVICE __device__\n" + header
    for name, value in constants.items():
        keyword = "bool" if isinstance(value, (bool, np.bool_)) else "int"
        text += f"constexpr {keyword} {name} = {int(value)};\n"
    for name, dtype in types.items():
        text += f"typedef {ctype(dtype)} {name};\n"
    return text


def literal(value: Any, dtype: np.dtype[Any]) -> str:
    """Return a number as a C++ constant with the bits that NumPy would store.

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


_NAME = re.compile(r"\bv(\d+)\b")
_FEWEST_STATEMENTS = 6
"""Fewest statements of a branch; fewer take less time than the condition."""

Side = tuple[str, bool]
"""A flag, and the value of the flag on this side of the branch."""


@dataclass(frozen=True)
class Statement:
    """``const <ctype> v<k> = <expression>;``, where a choice is ``flag ? x : y``."""

    ctype: str
    expression: str
    choice: tuple[str, str, str] | None = None

    def value_on(self, side: Side) -> str | None:
        """Return the value of a choice on a side; None if another flag decides."""
        if self.choice is None or self.choice[0] != side[0]:
            return None
        return self.choice[1] if side[1] else self.choice[2]


def print_statements(statements: list[Statement], result: str) -> list[str]:
    """Return lines of C++, with branches around statements that only one side needs.

    >>> choice = Statement("float", "f ? v0 : x", ("f", "v0", "x"))
    >>> print_statements([Statement("float", "exp(x)"), choice], "return v1;")
    ['const float v0 = exp(x);', 'const float v1 = f ? v0 : x;', 'return v1;']
    """
    return _Printer(statements, _find_sides(statements, result)).print(result)


@dataclass
class _Printer:
    statements: list[Statement]
    sides: dict[int, Side | None]
    printed: set[int] = field(default_factory=set)

    def print(self, result: str) -> list[str]:
        counts = list(self.sides.values())
        waiting = {k for k, side in self.sides.items() if side and counts.count(side) >= _FEWEST_STATEMENTS}
        lines: list[str] = []
        for k, statement in enumerate(self.statements):
            if k in waiting or k not in self.sides:
                continue
            flag = statement.choice[0] if statement.choice else ""
            members = [i for i in sorted(waiting) if self._flag(i) == flag and i < k]
            waiting.difference_update(members)
            lines += self._branch(flag, members) if members else []
            if k not in self.printed:
                lines.append(f"const {statement.ctype} v{k} = {statement.expression};")
                self.printed.add(k)
        return [*lines, result]

    def _flag(self, k: int) -> str | None:
        side = self.sides[k]
        return side and side[0]

    def _branch(self, flag: str, members: list[int]) -> list[str]:
        """Return `members` under a condition, and the choices among their values.

        Variables that a branch sets have a value on every path. Without it, ptxas kept the
        registers of 12 items from one tile to the next and spilled 500 bytes a thread.
        """
        choices = sorted(k for k in self.sides if self._is_choice_of(k, flag, members))
        self.printed.update(members, choices)
        declared = {k for k in members if self._is_used_later(k)}
        ctypes = {k: self.statements[k].ctype for k in (*members, *choices)}
        lines = [f"{ctypes[k]} v{k}{{}};" for k in sorted(declared)]
        lines += [f"{ctypes[k]} v{k};" for k in choices]
        # The longer side is assumed to be rarer.
        is_longer = sum(self.sides[k] == (flag, True) for k in members) * 2 > len(members)
        condition = f"if (__builtin_expect({flag}, {'0' if is_longer else '1'}))"
        for keyword, side in ((condition, (flag, True)), ("else", (flag, False))):
            lines.append(f"{keyword} {{")
            for k in (k for k in members if self.sides[k] == side):
                declaration = "" if k in declared else f"const {ctypes[k]} "
                lines.append(f"  {declaration}v{k} = {self.statements[k].expression};")
            lines += [f"  v{k} = {self.statements[k].value_on(side)};" for k in choices]
            lines.append("}")
        return lines

    def _is_choice_of(self, k: int, flag: str, members: list[int]) -> bool:
        choice = self.statements[k].choice
        if choice is None or choice[0] != flag or k in self.printed or self.sides[k]:
            return False
        needed = _names(choice[1]) | _names(choice[2])
        return bool(needed & set(members)) and needed <= self.printed | set(members)

    def _is_used_later(self, k: int) -> bool:
        later = (self.statements[j].expression for j in self.sides if j not in self.printed)
        return any(k in _names(expression) for expression in later)


def _find_sides(statements: list[Statement], result: str) -> dict[int, Side | None]:
    """Return for each used statement the only side that uses it, or None if several do."""
    users: dict[int, set[Side | None]] = {k: {None} for k in _names(result)}
    sides: dict[int, Side | None] = {}
    for k in range(len(statements) - 1, -1, -1):
        if k not in users:
            continue
        sides[k] = users[k].pop() if len(users[k]) == 1 else None
        for used, side in _uses(statements[k]):
            users.setdefault(used, set()).add(sides[k] or side)
    return sides


def _uses(statement: Statement) -> Iterator[tuple[int, Side | None]]:
    if statement.choice is None:
        yield from ((k, None) for k in _names(statement.expression))
        return
    flag = statement.choice[0]
    yield from ((k, None) for k in _names(flag))
    for side in ((flag, True), (flag, False)):
        yield from ((k, side) for k in _names(statement.value_on(side) or ""))


def names_without(statements: list[Statement], flag: str) -> dict[str, str]:
    """Return the name of each value if a condition is false: that of an equal statement."""
    known = {(statement.expression, statement.ctype): f"v{k}" for k, statement in enumerate(statements)}
    names: dict[str, str] = {}
    for k, statement in enumerate(statements):
        is_choice = statement.choice is not None and statement.choice[0] == flag
        text = statement.choice[2] if statement.choice and is_choice else statement.expression
        same = _NAME.sub(lambda match: names[match[0]], text)
        names[f"v{k}"] = same if is_choice else known.get((same, statement.ctype), f"only v{k}")
    return names


def _names(expression: str) -> set[int]:
    return {int(k) for k in _NAME.findall(expression)}
