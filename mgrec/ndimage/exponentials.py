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
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from ..core.algebra.exact import add_products
from ..core.backends import backend_of
from ..engines.cpu.threads import threads_for
from .axes import (
    FEW_ROWS,
    ROWS,
    RowKernel,
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
from .cpu import filter_rows
from .kernels import FIRST, LAST, ExponentialSum, Part, state_after, state_before

LEAST_STEPS, LARGEST = 256, 2.0**900
"""Fewest steps of the pieces of a row that fill the lanes of registers, of numbers below `LARGEST`."""
AT_ONCE = 128
"""Samples whose weighted sums are one product of matrices."""
FEW = 4
"""Parts whose sum is rounded at each step; those of a whole array are at most four. Gaussians of
sigma 2 over rows of 6 to 12 samples, in chunks of a few, were up to 6 ulp of the largest sample
from those of the whole array, which are up to 3.5 from the exact ones. Sums rounded once gave 4.
"""
KEPT = 1024
"""Most samples whose weights are kept for further calls: sums of more are computed in parts."""
WHOLE = 1 + 2.0**-40
"""Factor of results that are truncated to integers."""


@dataclass(frozen=True)
class Recipe:
    """The states before and after a chunk, from its parts and a constant outside of the array."""

    weights: np.ndarray  # (2, parts, poles)
    constants: np.ndarray  # (2, poles)


@dataclass(frozen=True)
class ExponentialFilter:
    """Convolution with a kernel along an axis; an :class:`.ImageFilter`."""

    kernel: ExponentialSum
    mode: str
    cval: complex = 0.0

    def plan(self, lengths: Sequence[int], chunk: int) -> tuple[list[tuple[int, Part]], Recipe]:
        """Return the parts that a chunk needs, and their weights."""
        states = [state(self.kernel, lengths, chunk, self.mode, 1.0) for state in (state_before, state_after)]
        wanted = sorted(states[0][0].keys() | states[1][0].keys())
        zero = np.zeros(len(self.kernel.poles), complex)
        weights = [[of_parts.get(key, zero) for key in wanted] for of_parts, _ in states]
        constants = np.array([constant for _, constant in states])
        return wanted, Recipe(np.array(weights).reshape(2, -1, zero.size), constants)

    def count(self, length: int, recipe: Recipe) -> int:
        """Return the number of results of `length` samples."""
        return length

    def part(self, x: Any, axis: int, part: Part) -> Any:
        """Return the states (outer, poles, inner) of a chunk at an end, as complex128."""
        sums, poles = self._sums(x, axis, part), len(self.kernel.poles)
        with np.errstate(invalid="ignore"):
            return sums[:, :poles] + 1j * sums[:, poles:]

    def _sums(self, x: Any, axis: int, part: Part) -> Any:
        """Return the real and the imaginary parts of states, (outer, 2·poles, inner)."""
        start, factors = self._factors(part, x.shape[axis])
        samples = as_float64(as_rows(_between(x, axis, start, start + factors.shape[1]), axis))
        with np.errstate(invalid="ignore"):
            return _weighted_sums(backend_of(samples).from_host(factors, samples), samples)

    def _factors(self, part: Part, length: int) -> tuple[int, np.ndarray]:
        """Return the first sample of a part, and the factors (2·poles, samples) of its samples."""
        is_last, skipped, is_single = part
        count = min(length - skipped, self.kernel.reach) if not skipped or length else 0
        count = 1 if is_single else count
        factors = (_factors if count <= KEPT else _factors.__wrapped__)(self.kernel, count)
        return (length - skipped - count, factors[:, ::-1]) if is_last else (skipped, factors)

    def apply(self, x: Any, axis: int, dtype: np.dtype[Any], recipe: Recipe, parts: Sequence[Any]) -> Any:
        """Return the filtered chunk; `parts` are those of its plan."""
        is_complex, rows = x.dtype.kind == "c", as_rows(x, axis)
        left, right = self._states(rows, recipe, parts, is_complex)
        target = dtype_like(x, dtype)
        if not backend_of(x).is_host:
            out = self._filter_on_gpu(rows, real_dtype(target), is_complex, left, right)
        else:
            out = np.empty(rows.shape, real_dtype(target))
            self._fill(rows, States(_joined(left, right)), out, False)
        return from_rows(out, x.shape, target)

    def apply_to_whole(self, x: Any, axis: int, dtype: np.dtype[Any], into: Any = None) -> Any:
        """Return the filtered array, whose borders are those of the mode."""
        is_complex, rows = x.dtype.kind == "c", as_rows(x, axis)
        target = dtype_like(x, dtype)
        if not backend_of(x).is_host:
            out = self._filter_on_gpu(rows, real_dtype(target), is_complex)
            return from_rows(out, x.shape, target)
        out, length = new_rows(rows.shape, real_dtype(target), into, axis), x.shape[axis]
        if min(length, self.kernel.reach) <= KEPT:
            states = _states_of_whole(self, length, is_complex)
        else:
            wanted, recipe = self.plan((length,), 0)
            parts = [self.part(x, axis, part) for _, part in wanted]
            states = States(_joined(*self._states(rows, recipe, parts, is_complex)))
        self._fill(rows, states, out, True)
        return from_rows(out, x.shape, target)

    def _filter_on_gpu(
        self, rows: Any, dtype: np.dtype[Any], is_complex: bool, left: Any = None, right: Any = None
    ) -> Any:
        from .cuda import filter_rows

        constants = constants_of(self.cval, is_complex)
        return filter_rows(self.kernel, self.mode, constants, rows, dtype, left, right)

    def _states(self, rows: Any, recipe: Recipe, parts: Sequence[Any], is_complex: bool) -> Any:
        """Return the states (outer, poles, inner) before and after rows, from their parts."""
        sides = zip(recipe.weights, recipe.constants, strict=True)
        return [self._state(rows, *side, parts, is_complex) for side in sides]

    def _state(
        self, rows: Any, weights: np.ndarray, constant: np.ndarray, parts: Sequence[Any], is_complex: bool
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
                real, imaginary = [], []
                for factor, part in zip(weights, parts, strict=True):
                    re, im = factor.real[:, None], factor.imag[:, None]
                    real += [(re, part.real), (-im, part.imag)]
                    imaginary += [(re, part.imag), (im, part.real)]
                return add_products(state.real, real) + 1j * add_products(state.imag, imaginary)
            for factor, part in zip(weights, parts, strict=True):
                state += factor[:, None] * part
        return state

    def _pieces(self, shape: tuple[int, int, int], is_threaded: bool) -> int:
        """Return the number of pieces of few long rows, which fill the lanes of blocks; 0 for none."""
        outer, steps, inner = shape
        count = ROWS * threads_for(outer * steps, is_threaded)
        is_long = steps >= (count + 1) * max(self.kernel.reach, LEAST_STEPS)
        return count if inner == 1 and outer < FEW_ROWS and is_long else 0

    def _fill(self, rows: np.ndarray, states: States, out: np.ndarray, is_threaded: bool) -> None:
        """Write filtered rows to `out`."""
        count = self._pieces(rows.shape, is_threaded)
        if not count or not out.flags.c_contiguous:
            self._fill_rows(rows, states, out, is_threaded)
            return
        values = states.of(rows)
        for k in range(rows.shape[0]):
            part = slice(k, k + 1)
            # nan and overflow change all that follows in a row.
            is_divided = float(rows[part].min()) > -LARGEST and float(rows[part].max()) < LARGEST
            fill = partial(self._fill_pieces, count) if is_divided else self._fill_rows
            fill(rows[part], States(values[part]), out[part], is_threaded)

    def _fill_pieces(
        self, count: int, row: np.ndarray, states: States, out: np.ndarray, is_threaded: bool
    ) -> None:
        """Write one long row as `count` rows of equal length, and the rest of it as another."""
        size = row.shape[1] // (count + 1) * count
        pieces, later = row[:, :size].reshape(count, -1, 1), row[:, size:]
        before, after = np.split(states.values, 2, axis=1)
        before = np.concatenate([before, self._sums(pieces, 1, LAST)])
        after = np.concatenate([self._sums(pieces, 1, FIRST)[1:], self._sums(later, 1, FIRST), after])
        values = np.concatenate([before, after], axis=1)
        self._fill_rows(pieces, States(values[:-1]), out[:, :size].reshape(pieces.shape), is_threaded)
        self._fill_rows(later, States(values[-1:]), out[:, size:], is_threaded)

    def _fill_rows(self, rows: np.ndarray, states: States, out: np.ndarray, is_threaded: bool) -> None:
        fill_rows(self._row_kernel(states, rows.shape[1]), rows, out, is_threaded)

    def _row_kernel(self, states: States, steps: int) -> RowKernel:
        call = partial(filter_rows, *states, _coefficients(self.kernel))
        return RowKernel(call, _cast, steps + 4 * len(self.kernel.poles))

    def kernel_of_whole(self, shape: tuple[int, int, int]) -> RowKernel | None:
        """Return the kernel of whole real rows; None if they or their states are computed in pieces."""
        length = shape[1]
        if min(length, self.kernel.reach) > KEPT or self._pieces(shape, False):
            return None
        return self._row_kernel(_states_of_whole(self, length, False), length)


def _cast(values: Any, dtype: np.dtype[Any]) -> Any:
    # A constant must not be truncated to the next integer by a rounding error.
    return cast_like_scipy(values * WHOLE if dtype.kind in "iub" else values, dtype)


_NONE = np.empty((0, 0))


class States(NamedTuple):
    """The real and imaginary parts of the states before rows, and of those after.

    `values`, array (outer, 4·poles, inner) or (1, 4·poles, 2): the states, or their part that
      samples outside of the rows make; for all rows, those of even and odd inner indices.
    `first`, `last`, arrays (4·poles, samples): weights of the first and of the last samples, whose
      sums are added.
    """

    values: np.ndarray
    first: np.ndarray = _NONE
    last: np.ndarray = _NONE

    def of(self, rows: np.ndarray) -> np.ndarray:
        """Return the states of rows (outer, steps, inner)."""
        with np.errstate(invalid="ignore", over="ignore"):
            values, steps = self.values[:, :, : rows.shape[2]], rows.shape[1]
            for weights, start in ((self.first, 0), (self.last, steps - self.last.shape[1])):
                if weights.size:
                    x = as_float64(rows[:, start : start + weights.shape[1]])
                    values = values + _weighted_sums(weights, x)
            return values


@lru_cache(maxsize=256)
def _states_of_whole(axis_filter: ExponentialFilter, length: int, is_complex: bool) -> States:
    """Return the states of whole rows, from their samples and the constant outside.

    The last samples have no weights if the first ones are all.
    """
    wanted, recipe = axis_filter.plan((length,), 0)
    count = axis_filter.kernel.reach + 1
    if length <= 2 * count:
        count = length
    poles = len(axis_filter.kernel.poles)
    # States before and after the rows; weights of the first and of the last samples.
    weights = np.zeros((2, poles, 2, count), complex)
    for number, (_, part) in enumerate(wanted):
        start, factors = axis_filter._factors(part, length)
        powers = factors[:poles] + 1j * factors[poles:]
        end = int(start + powers.shape[1] > count)
        start -= end * (length - count)
        for side, of_parts in enumerate(recipe.weights):
            weights[side, :, end, start : start + powers.shape[1]] += of_parts[number][:, None] * powers
    parts = np.stack([weights.real, weights.imag], 1).reshape(4 * poles, 2, count)
    outside = np.zeros((1, 4 * poles, 2))
    if axis_filter.mode == "constant":
        constants = np.stack([recipe.constants.real, recipe.constants.imag], 1).reshape(-1, 1)
        outside[0] = constants * np.array(constants_of(axis_filter.cval, is_complex))
    return States(outside, parts[:, 0].copy(), _NONE if count == length else parts[:, 1].copy())


def _joined(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return complex states (outer, poles, inner) as those of :class:`States`."""
    return np.concatenate([before.real, before.imag, after.real, after.imag], 1)


def _weighted_sums(weights: Any, rows: Any) -> Any:
    """Return weighted sums (outer, weights, inner) of rows (outer, steps, inner)."""
    if not isinstance(rows, np.ndarray):
        return (rows[:, :, 0] @ weights.T)[:, :, None] if rows.shape[2] == 1 else weights @ rows
    sums = weights[:, :AT_ONCE] @ rows[:, :AT_ONCE]
    # After products of larger matrices the threads of OpenBLAS keep a processor busy for 25 ms.
    for k in range(AT_ONCE, rows.shape[1], AT_ONCE):
        sums += weights[:, k : k + AT_ONCE] @ rows[:, k : k + AT_ONCE]
    return sums


def _between(x: Any, axis: int, start: int, stop: int) -> Any:
    return x[(slice(None),) * axis + (slice(start, stop),)]


@lru_cache(maxsize=256)
def _factors(kernel: ExponentialSum, count: int) -> np.ndarray:
    """Return the real and the imaginary parts of p^j for j below `count`, (2·poles, count)."""
    powers = kernel.powers(count)
    return np.concatenate([powers.real, powers.imag])


@lru_cache(maxsize=256)
def _coefficients(kernel: ExponentialSum) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Return the poles, the weights w·p of the samples before and after one, and h[0].

    The arrays have real and imaginary parts along a first axis.
    """
    poles = np.array(kernel.poles)
    behind = np.array(kernel.weights) * poles
    ahead = -behind if kernel.is_odd else behind
    re_im = [np.stack([values.real, values.imag]) for values in (poles, behind, ahead)]
    return re_im[0], re_im[1], re_im[2], kernel.middle
