"""Powers of a cascade's matrix A, which advance its states by many steps without input."""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext
from functools import lru_cache
from typing import Any

import numpy as np

from .cascade import Cascade


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
        product = powers.matrix(powers.raised(powers.first, steps))
        high = product.astype(np.float64)
        with np.errstate(all="ignore"):
            low = (product - _decimals(high)).astype(np.float64)
    low[~np.isfinite(high)] = 0
    if not cascade.is_complex:
        return high, low
    return _as_complex(high), _as_complex(low)


@lru_cache(maxsize=64)
def doubled_powers(cascade: Cascade, steps: int, chunk: int, count: int) -> np.ndarray:
    """Return A**steps, and A**(steps·chunk·2**k) for k = 0 … count − 1, each rounded once.

    They are inf or nan where a power overflows.
    """
    with _many_digits(cascade, steps * chunk << count):
        powers = _powers_of(cascade)
        product = powers.raised(powers.first, steps)
        results = [product]
        product = powers.raised(product, chunk)
        for _ in range(count):
            results.append(product)
            product = powers.product(product, product)
        matrices = np.array([powers.matrix(power).astype(np.float64) for power in results])
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
