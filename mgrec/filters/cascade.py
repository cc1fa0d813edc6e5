"""A filter with constant coefficients, as a cascade of sections, and powers of its matrix.

A section of order k has k states z, and one step of it is (direct form II transposed)

    y = b_0·x + z_0,    z_i = z_{i+1} + b_{i+1}·x − a_{i+1}·y    (i = 0 … k−1, z_k = 0).

The states of a cascade, one section after the other, obey z ← A·z + (terms of x). After L steps a
carry-in z has become A^L·z + offset. The summary of a chunk is its offset. Powers of A advance
states by many steps without input.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Context, Decimal, localcontext
from functools import cached_property, lru_cache
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Section:
    """b(z)/a(z) with a_0 = 1; b and a have the length order + 1."""

    b: tuple[Any, ...]
    a: tuple[Any, ...]
    # Whether the denominator is a_0 alone. SciPy then convolves, and a nan leaves the states after
    # `order` steps. Otherwise it would remain, as 0·nan.
    is_convolution: bool = False
    # Whether a coefficient is complex, maybe without an imaginary part. It is part of comparisons,
    # because caches would otherwise take 1 + 0j for 1.
    is_complex: bool = field(init=False)

    def __post_init__(self) -> None:
        is_complex = any(isinstance(number, complex) for number in (*self.b, *self.a))
        object.__setattr__(self, "is_complex", is_complex)

    @property
    def order(self) -> int:
        return len(self.a) - 1

    @property
    def is_feed_forward(self) -> bool:
        return not any(self.a[1:])


@dataclass(frozen=True)
class Cascade:
    """Sections of the same order in series: each takes the output of the previous one."""

    sections: tuple[Section, ...]

    @classmethod
    def of_polynomials(cls, b: Any, a: Any) -> Cascade:
        """Return b(z)/a(z) as one section; b and a are 1-d, of any lengths, and a_0 is not 0."""
        dtype = np.result_type(np.asarray(b), np.asarray(a), np.float64)
        b, a = np.asarray(b, dtype), np.asarray(a, dtype)
        return _cached_cascade(b.tobytes(), a.tobytes(), dtype.char)

    @classmethod
    def of_sections(cls, sos: Any) -> Cascade:
        """Return a cascade of second-order sections, from an array (sections, 6) with a_0 = 1."""
        sos = np.asarray(sos)
        sos = sos.astype(np.result_type(sos, np.float64))
        return cls(tuple(Section(tuple(row[:3]), tuple(row[3:])) for row in sos.tolist()))

    def __reduce__(self) -> Any:
        # Without cached properties: plans compare pickles.
        return Cascade, (self.sections,)

    @property
    def order(self) -> int:
        """Order of each section."""
        return self.sections[0].order

    @property
    def states(self) -> int:
        """Number of scalars in the state."""
        return len(self.sections) * self.order

    @cached_property
    def is_complex(self) -> bool:
        return any(section.is_complex for section in self.sections)

    @property
    def is_feed_forward(self) -> bool:
        """Whether outputs depend on inputs only."""
        return self.sections[0].is_convolution

    def state_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of states for results of `dtype`."""
        is_complex = self.is_complex or dtype.kind == "c"
        return np.dtype(np.complex128 if is_complex else np.float64)

    def coefficients(self, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return b and a as arrays (sections, order + 1); a is (sections, 1) if feed-forward."""
        b = np.array([section.b for section in self.sections], dtype)
        a = np.array([section.a for section in self.sections], dtype)
        return b, a[:, :1] if self.is_feed_forward else a

    @cached_property
    def float64_coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        """The coefficients in float64. Do not write to them."""
        return self.coefficients(np.float64)

    @cached_property
    def radius(self) -> float:
        """The largest absolute value of a pole; below 1, states decay."""
        return max(_radius(section.a) for section in self.sections)

    @cached_property
    def decay(self) -> float:
        """Number of steps in which a state decays to about 2**-64 of itself; inf if it does not."""
        if self.radius == 0:
            return float(self.states)
        if not self.radius < 1:
            return np.inf
        return float(self.states - 64 * np.log(2) / np.log(self.radius))


@lru_cache(maxsize=1024)
def _radius(a: tuple[Any, ...]) -> float:
    # Cached because every call builds its sections again: eight of them took 0.6 ms.
    if not np.isfinite(a).all():
        return np.inf
    return float(max([*np.abs(np.roots(a)), 0.0]))


def _divided(values: np.ndarray, divisor: Any) -> np.ndarray:
    """Return quotients rounded once; NumPy rounds complex quotients several times."""
    if values.dtype.char != "D":
        return np.asarray(values / divisor)
    return np.asarray((values.astype(np.clongdouble) / divisor).astype(values.dtype))


@lru_cache(maxsize=256)
def _cached_cascade(b_bytes: bytes, a_bytes: bytes, dtype: str) -> Cascade:
    """Return one object for the same coefficients, so that its properties are computed once."""
    b, a = np.frombuffer(b_bytes, dtype), np.frombuffer(a_bytes, dtype)
    length = max(b.size, a.size)
    with np.errstate(all="ignore"):
        parts = [np.pad(_divided(part, a[0]), (0, length - part.size)) for part in (b, a)]
    taps, feedback = (tuple(part.tolist()) for part in parts)
    return Cascade((Section(taps, feedback, is_convolution=a.size == 1),))


@lru_cache(maxsize=1024)
def power(cascade: Cascade, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return A to the power of `steps`, as the sum of two arrays.

    The function computes with decimals of many digits. If poles lie close to each other, powers of
    A first grow by many orders of magnitude, and squaring them in float64 loses all digits.

    The first array is A**steps rounded to float64 or complex128, and the sum has twice its digits.
    Both are inf or nan where A**steps overflows.
    """
    with _many_digits(cascade, steps):
        powers = _powers_of(cascade)
        high, low = _halves(powers.matrix(powers.raised(powers.first, steps)))
    if not cascade.is_complex:
        return high, low
    return _as_complex(high), _as_complex(low)


def _halves(decimals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return decimals rounded to float64, and the rounding errors: 0 where a number overflows."""
    high = decimals.astype(np.float64)
    with np.errstate(all="ignore"):
        low = (decimals - _decimals(high)).astype(np.float64)
    low[~np.isfinite(high)] = 0
    return high, low


@lru_cache(maxsize=64)
def doubled_powers(cascade: Cascade, steps: int, chunk: int, count: int) -> np.ndarray:
    """Return A**steps, and A**(steps·chunk·2**k) for k = 0 … count − 1, as :func:`power` does.

    The array (2, count + 1, states, states) has the powers rounded once, and their rounding errors.
    """
    with _many_digits(cascade, steps * chunk << count):
        powers = _powers_of(cascade)
        product = powers.raised(powers.first, steps)
        results = [product]
        product = powers.raised(product, chunk)
        for _ in range(count):
            results.append(product)
            product = powers.product(product, product)
        halves = zip(*[_halves(powers.matrix(product)) for product in results], strict=True)
    matrices = np.array(list(halves))
    return _as_complex(matrices) if cascade.is_complex else matrices


@lru_cache(maxsize=64)
def powers_of_lanes(cascade: Cascade, steps: int) -> np.ndarray:
    """Return A**(steps·k) for k = 0 … 31, (states, states, 32), each rounded once."""
    with _many_digits(cascade, steps * 32):
        powers = _powers_of(cascade)
        step, product = powers.raised(powers.first, steps), powers.one
        results = []
        for _ in range(32):
            results.append(powers.matrix(product).astype(np.float64))
            product = powers.product(product, step)
    return np.ascontiguousarray(np.stack(results, axis=-1))


def impulse_states(cascade: Cascade, steps: int) -> np.ndarray:
    """Return the states (steps, states) after 1, 2, … samples of an impulse, each rounded once."""
    with _many_digits(cascade, steps):
        matrix = _transition(cascade)
        state, sample = [], Decimal(1)
        for section in cascade.sections:
            b, a = ([_exact(value, 1)[0, 0] for value in part] for part in (section.b, section.a))
            state += [b[i] * sample - a[i] * b[0] * sample for i in range(1, cascade.order + 1)]
            sample = b[0] * sample
        states = [np.array(state)]
        for _ in range(steps - 1):
            states.append(matrix @ states[-1])
    return np.array(states).astype(np.float64)


def _many_digits(cascade: Cascade, steps: int) -> Any:
    """Return a context with digits for 50 correct ones.

    Powers of k equal poles grow like steps**(k − 1) before they decay.
    """
    growth = cascade.states * (1 + math.log10(max(1.0, min(steps, cascade.decay))))
    return localcontext(Context(prec=50 + math.ceil(growth), traps=[]))


class _Powers:
    """Powers of A in decimals; a complex c is the matrix ((re c, −im c), (im c, re c)).

    `one` and `first` are A**0 and A. The matrix of several sections is block lower triangular.
    """

    def __init__(self, cascade: Cascade) -> None:
        self.first = _transition(cascade)
        self.one = _decimals(np.eye(len(self.first)))
        self.width = len(self.first) // len(cascade.sections)

    def product(self, left: Any, right: Any) -> Any:
        result = _decimals(np.zeros(left.shape))
        for row in range(0, len(left), self.width):
            end = row + self.width
            for column in range(0, end, self.width):
                between, columns = slice(column, end), slice(column, column + self.width)
                result[row:end, columns] = left[row:end, between] @ right[between, columns]
        return result

    def matrix(self, power: Any) -> np.ndarray:
        return np.asarray(power)

    def raised(self, base: Any, exponent: int) -> Any:
        result = self.one
        for digit in f"{exponent:b}":
            result = self.product(result, result)
            if digit == "1":
                result = self.product(result, base)
        return result


class _PowersOfSection(_Powers):
    """Powers of the companion matrix of one section, each represented by its last column.

    A maps each unit vector except the first to the previous one. The other columns therefore
    follow from the last one, in k² multiplications instead of k³.
    """

    def __init__(self, cascade: Cascade) -> None:
        self.size = 2 if cascade.is_complex else 1
        self.feedback = np.array([_exact(c, self.size) for c in cascade.sections[0].a[1:]])
        self.one = _decimals(np.zeros((cascade.states, self.size)))
        self.one[-1:, 0] = Decimal(1)
        self.first = self._step(self.one)

    def _step(self, state: Any) -> Any:
        moved = np.concatenate([state[1:], _decimals(np.zeros((1, self.size)))])
        return moved - self.feedback @ state[0]

    def product(self, left: Any, right: Any) -> Any:
        return (self.matrix(left) @ right.ravel()).reshape(right.shape)

    def matrix(self, power: Any) -> np.ndarray:
        columns = [power]
        for _ in power[1:]:
            columns.append(self._step(columns[-1]))
        matrix = np.array(columns[::-1])
        if self.size == 2:
            imaginary = np.stack([-matrix[..., 1], matrix[..., 0]], axis=-1)
            matrix = np.stack([matrix, imaginary], axis=1)
        return matrix.reshape(power.size, power.size).T


def _powers_of(cascade: Cascade) -> _Powers:
    is_one = len(cascade.sections) == 1 and cascade.order > 0
    return _PowersOfSection(cascade) if is_one else _Powers(cascade)


_decimals = np.vectorize(lambda value: Decimal(float(value)), otypes=[object])


def _transition(cascade: Cascade) -> np.ndarray:
    """Return A in decimals, with complex numbers as in :class:`_Powers`."""
    count, order = cascade.states, cascade.order
    size = 2 if cascade.is_complex else 1
    matrix = _decimals(np.zeros((count, count, size, size)))
    one = _decimals(np.eye(size))
    # The output of the previous sections, as a linear function of all states.
    section_input = _decimals(np.zeros((count, size, size)))
    for number, section in enumerate(cascade.sections):
        b, a = ([_exact(value, size) for value in part] for part in (section.b, section.a))
        first = number * order
        output = section_input @ b[0]
        if order:
            output[first] = output[first] + one
        for i in range(order):
            matrix[first + i] = section_input @ b[i + 1] - output @ a[i + 1]
            if i + 1 < order:
                matrix[first + i, first + i + 1] = matrix[first + i, first + i + 1] + one
        section_input = output
    return matrix.transpose(0, 2, 1, 3).reshape(count * size, count * size)


def _exact(value: Any, size: int) -> np.ndarray:
    if size == 1:
        return _decimals(np.array([[value]]))
    real, imaginary = complex(value).real, complex(value).imag
    return _decimals(np.array([[real, -imaginary], [imaginary, real]]))


def _as_complex(matrix: np.ndarray) -> np.ndarray:
    result = matrix[..., ::2, ::2].astype(np.complex128)
    result.imag = matrix[..., 1::2, ::2]
    return result
