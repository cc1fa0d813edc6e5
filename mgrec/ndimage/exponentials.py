"""Convolution with sums of exponentials, by recurrences forward and backward.

The result is the sum of two recurrences for each pole p with the weight w:

    v[n] = p·v[n − 1] + x[n],    u[n] = p·u[n + 1] + x[n],
    y[n] = h[0]·x[n] + Re Σ w·p·(v[n − 1] + u[n + 1]).

The states before and after a chunk are sums over its neighbours and over the extension of the
row: see :mod:`.kernels`. Both recurrences read the same samples, so that a chunk needs the two
states at once, and chunks at a distance of :attr:`.ExponentialSum.reach` do not depend on each
other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..core.algebra.exact import exact_product, exact_sum
from ..core.backends import backend_of
from .axes import (
    Block,
    as_float64,
    as_rows,
    cast_like_scipy,
    constants_of,
    dtype_like,
    fill_rows,
    from_rows,
    new_rows,
    real_dtype,
)
from .kernels import ExponentialSum, Part, state_after, state_before

FEW = 4
"""Parts whose sum is rounded at each step; those of a whole array are at most four. Gaussians of
sigma 2 over rows of 6 to 12 samples, in chunks of a few, were up to 6 ulp of the largest sample
from those of the whole array, which are up to 3.5 from the exact ones. Sums rounded once gave 4.
"""
KEPT = 1024
"""Most powers of the poles of a kernel that are kept for further calls."""
WHOLE = 1 + 2.0**-40
"""Factor of results that are truncated to integers."""


@dataclass(frozen=True)
class Recipe:
    """The states of a chunk: weights (parts, poles) of its parts, and constants (poles,)."""

    left: np.ndarray
    right: np.ndarray
    constants: np.ndarray


@dataclass(frozen=True)
class ExponentialFilter:
    """Convolution with a kernel along an axis; an :class:`.ImageFilter`."""

    kernel: ExponentialSum
    mode: str
    cval: complex = 0.0

    def plan(self, lengths: Sequence[int], chunk: int) -> tuple[list[tuple[int, Part]], Recipe]:
        """Return the parts that a chunk needs, and their weights."""
        states = [
            state(self.kernel, lengths, chunk, self.mode, 1.0)
            for state in (state_before, state_after)
        ]
        wanted = sorted(states[0][0].keys() | states[1][0].keys())
        zero = np.zeros(len(self.kernel.poles), complex)
        left, right = (
            np.array([weights.get(key, zero) for key in wanted]).reshape(-1, zero.size)
            for weights, _ in states
        )
        return wanted, Recipe(left, right, np.array([constant for _, constant in states]))

    def count(self, length: int, recipe: Recipe) -> int:
        """Return the number of results of `length` samples."""
        return length

    def part(self, x: Any, axis: int, part: Part) -> Any:
        """Return the states (outer, poles, inner) of a chunk at an end, as complex128."""
        (end, skipped), length = part, x.shape[axis]
        count = min(length - skipped, self.kernel.reach) if not skipped or length else 0
        if end in ("first sample", "last sample"):
            count = 1
        factors = (_factors if count <= KEPT else _factors.__wrapped__)(self.kernel, count)
        start = skipped if end.startswith("first") else length - skipped - count
        if end == "last":
            factors = factors[:, ::-1]
        samples = as_float64(as_rows(_between(x, axis, start, start + count), axis))
        factors = backend_of(samples).from_host(factors, samples)
        with np.errstate(invalid="ignore"):
            if samples.shape[2] == 1:
                sums = (samples[:, :, 0] @ factors.T)[:, :, None]
            else:
                sums = factors @ samples
            poles = len(self.kernel.poles)
            return sums[:, :poles] + 1j * sums[:, poles:]

    def apply(
        self, x: Any, axis: int, dtype: np.dtype[Any], recipe: Recipe, parts: Sequence[Any],
        is_threaded: bool = False, into: Any = None,
    ) -> Any:  # fmt: skip
        """Return the filtered chunk; `parts` are those of its plan."""
        is_complex, rows = x.dtype.kind == "c", as_rows(x, axis)
        left, right = (
            self._state(rows, weights, parts, constant, is_complex)
            for weights, constant in zip((recipe.left, recipe.right), recipe.constants, strict=True)
        )
        target = dtype_like(x, dtype)
        if not backend_of(x).is_host:
            out = self._filter_on_gpu(rows, real_dtype(target), is_complex, left, right)
        else:
            out = new_rows(rows.shape, real_dtype(target), into, axis)
            self._fill(rows, left, right, out, is_threaded)
        return from_rows(out, x.shape, target)

    def apply_on_gpu(self, x: Any, axis: int, dtype: np.dtype[Any]) -> Any:
        """Return the filtered CuPy array, which is a whole one: kernels extend its lines."""
        is_complex = x.dtype.kind == "c"
        target = dtype_like(x, dtype)
        out = self._filter_on_gpu(as_rows(x, axis), real_dtype(target), is_complex)
        return from_rows(out, x.shape, target)

    def _filter_on_gpu(
        self, rows: Any, dtype: np.dtype[Any], is_complex: bool, left: Any = None, right: Any = None
    ) -> Any:
        from .cuda import filter_rows

        constants = constants_of(self.cval, is_complex)
        return filter_rows(self.kernel, self.mode, constants, rows, dtype, left, right)

    def _state(
        self, rows: Any, weights: np.ndarray, parts: Sequence[Any], constant: Any, is_complex: bool
    ) -> Any:
        """Return a state (outer, poles, inner) from the parts of neighbours."""
        shape = rows.shape[0], len(self.kernel.poles), rows.shape[2]
        from_host = backend_of(rows).from_host
        state, weights = np.zeros_like(rows, complex, shape=shape), from_host(weights, rows)
        if self.mode == "constant":
            cvals = np.array(constants_of(self.cval, is_complex)[: 2 if is_complex else 1])
            constants = constant[:, None] * np.tile(cvals, shape[2] // cvals.size)
            state += from_host(constants, rows)
        with np.errstate(invalid="ignore", over="ignore"):
            if len(parts) > FEW:
                return _accurate_sum(state, weights, parts)
            for factor, part in zip(weights, parts, strict=True):
                state += factor[:, None] * part
        return state

    def _fill(
        self, rows: np.ndarray, left: np.ndarray, right: np.ndarray, out: np.ndarray,
        is_threaded: bool,
    ) -> None:  # fmt: skip
        from .cpu import COLUMNS, ROWS, filter_rows

        coefficients, states = _coefficients(self.kernel), (_parts(left), _parts(right))

        def filter_block(block: Block, x: Any, x_at: Any, filtered: Any, out_at: Any) -> None:
            memory = x.shape[1], ROWS if block.are_contiguous else COLUMNS
            filter_rows(
                x, filtered, block.first, x_at, out_at, block.count, block.are_contiguous,
                *states, *coefficients, self.kernel.middle, np.zeros(memory), np.empty(memory),
            )  # fmt: skip

        fill_rows(filter_block, rows, out, self._cast, is_threaded)

    def _cast(self, values: Any, dtype: np.dtype[Any]) -> Any:
        # A constant must not be truncated to the next integer by a rounding error.
        return cast_like_scipy(values * WHOLE if dtype.kind in "iub" else values, dtype)


def _accurate_sum(state: Any, weights: Any, parts: Sequence[Any]) -> Any:
    """Return the state plus the weighted parts, rounded about once (Ogita, Rump, Oishi 2005)."""
    sums, errors = [state.real, state.imag], [0.0, 0.0]
    for factor, part in zip(weights, parts, strict=True):
        re, im = factor.real[:, None], factor.imag[:, None]
        for component, weight, values in (
            (0, re, part.real), (0, -im, part.imag), (1, re, part.imag), (1, im, part.real),
        ):  # fmt: skip
            product, rounding = exact_product(weight, values)
            sums[component], lost = exact_sum(sums[component], product)
            errors[component] = errors[component] + (lost + rounding)
    # The error terms are nan for nan, inf and numbers near the largest one.
    real, imaginary = (
        np.where(np.isfinite(error), total + error, total)
        for total, error in zip(sums, errors, strict=True)
    )
    return real + 1j * imaginary


def _between(x: Any, axis: int, start: int, stop: int) -> Any:
    return x[(slice(None),) * axis + (slice(start, stop),)]


def _parts(values: np.ndarray) -> np.ndarray:
    """Return real and imaginary parts along a new first axis."""
    parts = np.empty((2, *values.shape))  # np.stack takes ten times as long for few values
    parts[0], parts[1] = values.real, values.imag
    return parts


@lru_cache(maxsize=256)
def _factors(kernel: ExponentialSum, count: int) -> np.ndarray:
    """Return the real and the imaginary parts of p^j for j below `count`, (2·poles, count)."""
    powers = kernel.powers(count)
    return np.concatenate([powers.real, powers.imag])


@lru_cache(maxsize=256)
def _coefficients(kernel: ExponentialSum) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the poles, and the weights w·p of the sums over the samples before and after one."""
    poles = np.array(kernel.poles)
    behind = np.array(kernel.weights) * poles
    return _parts(poles), _parts(behind), _parts(-behind if kernel.is_odd else behind)
