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
from typing import Any

import numpy as np

from ..core.algebra.exact import exact_product, exact_sum
from ..core.backends import backend_of
from ..engines.cpu.threads import threads_for
from .axes import (
    RowIndex,
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
from .cpu import COLUMNS, ROWS, VECTOR, filter_rows
from .kernels import FIRST, LAST, ExponentialSum, Part, state_after, state_before

LEAST_STEPS, LARGEST = 256, 2.0**900
"""Fewest steps of the pieces of a row that fill the lanes of registers, of numbers below `LARGEST`."""
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
        states = [state(self.kernel, lengths, chunk, self.mode, 1.0) for state in (state_before, state_after)]
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
        end, skipped = part
        count = min(length - skipped, self.kernel.reach) if not skipped or length else 0
        if end in ("first sample", "last sample"):
            count = 1
        factors = (_factors if count <= KEPT else _factors.__wrapped__)(self.kernel, count)
        start = skipped if end.startswith("first") else length - skipped - count
        return start, factors[:, ::-1] if end == "last" else factors

    def apply(self, x: Any, axis: int, dtype: np.dtype[Any], recipe: Recipe, parts: Sequence[Any]) -> Any:
        """Return the filtered chunk; `parts` are those of its plan."""
        is_complex, rows = x.dtype.kind == "c", as_rows(x, axis)
        left, right = self._states(rows, recipe, parts, is_complex)
        target = dtype_like(x, dtype)
        if not backend_of(x).is_host:
            out = self._filter_on_gpu(rows, real_dtype(target), is_complex, left, right)
        else:
            out = np.empty(rows.shape, real_dtype(target))
            self._fill(rows, _joined(left, right), out, False)
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
            border, cvals = _border(self, length), constants_of(self.cval, is_complex)
            states = border.states(rows, cvals)
        else:
            wanted, recipe = self.plan((length,), 0)
            parts = [self.part(x, axis, part) for _, part in wanted]
            states = _joined(*self._states(rows, recipe, parts, is_complex))
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
        return [
            self._state(rows, weights, parts, constant, is_complex)
            for weights, constant in zip((recipe.left, recipe.right), recipe.constants, strict=True)
        ]

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

    def _fill(self, rows: np.ndarray, states: np.ndarray, out: np.ndarray, is_threaded: bool) -> None:
        """Write filtered rows to `out`; `states` are those of :meth:`Border.states`."""
        (outer, steps, inner), count = rows.shape, 0
        if inner == 1 and outer < VECTOR and out.flags.c_contiguous:
            count = ROWS * threads_for(out.size, is_threaded)
        if not count or steps < (count + 1) * max(self.kernel.reach, LEAST_STEPS):
            self._fill_rows(rows, states, out, is_threaded)
            return
        for k in range(outer):
            part = slice(k, k + 1)
            # nan and overflow change all that follows in a row.
            is_divided = float(rows[part].min()) > -LARGEST and float(rows[part].max()) < LARGEST
            fill = partial(self._fill_pieces, count) if is_divided else self._fill_rows
            fill(rows[part], states[part], out[part], is_threaded)

    def _fill_pieces(
        self, count: int, row: np.ndarray, states: np.ndarray, out: np.ndarray, is_threaded: bool
    ) -> None:
        """Write one long row as `count` rows of equal length, and the rest of it as another."""
        size = row.shape[1] // (count + 1) * count
        pieces, later = row[:, :size].reshape(count, -1, 1), row[:, size:]
        before, after = np.split(states, 2, axis=1)
        before = np.concatenate([before, self._sums(pieces, 1, LAST)])
        after = np.concatenate([self._sums(pieces, 1, FIRST)[1:], self._sums(later, 1, FIRST), after])
        states = np.concatenate([before, after], axis=1)
        self._fill_rows(pieces, states[:-1], out[:, :size].reshape(pieces.shape), is_threaded)
        self._fill_rows(later, states[-1:], out[:, size:], is_threaded)

    def _fill_rows(self, rows: np.ndarray, states: np.ndarray, out: np.ndarray, is_threaded: bool) -> None:
        coefficients = _coefficients(self.kernel)
        are_contiguous = rows.shape[2] == 1
        most = ROWS if are_contiguous else COLUMNS

        def filter_block(
            first: RowIndex, count: int, x: Any, x_at: RowIndex, filtered: Any, out_at: RowIndex
        ) -> None:
            shape = x.shape[1], min(most, -(-count // VECTOR) * VECTOR)
            block = first, x_at, out_at, count, are_contiguous
            memory = np.zeros(shape), np.empty(shape)
            filter_rows(x, filtered, states, block, coefficients, memory)

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
            (0, re, part.real),
            (0, -im, part.imag),
            (1, re, part.imag),
            (1, im, part.real),
        ):
            product, rounding = exact_product(weight, values)
            sums[component], lost = exact_sum(sums[component], product)
            errors[component] = errors[component] + (lost + rounding)
    # The error terms are nan for nan, inf and numbers near the largest one.
    real, imaginary = (
        np.where(np.isfinite(error), total + error, total) for total, error in zip(sums, errors, strict=True)
    )
    return real + 1j * imaginary


@dataclass(frozen=True)
class Border:
    """The states before and after whole rows, from their samples.

    Rows of the matrices are the real and imaginary parts of the states before, and of those after.

    Attributes
    ----------
    first, last : arrays (4·poles, samples)
        Weights of the first and of the last samples; `last` is None if `first` has those of all.
    constants : array (4·poles, 1), optional
        Weights of the constant outside of the rows, in the mode "constant".
    """

    first: np.ndarray
    last: np.ndarray | None
    constants: np.ndarray | None

    def states(self, rows: np.ndarray, cvals: tuple[float, float]) -> np.ndarray:
        """Return the states (outer, 4·poles, inner); `cvals` are outside of even and odd rows."""
        with np.errstate(invalid="ignore", over="ignore"):
            count = self.first.shape[1]
            states = _weighted_sums(self.first, as_float64(rows[:, :count]))
            if self.last is not None:
                states += _weighted_sums(self.last, as_float64(rows[:, -count:]))
            if self.constants is not None:
                for parity in (0, 1):
                    states[:, :, parity::2] += self.constants * cvals[parity]
            return states


@lru_cache(maxsize=256)
def _border(axis_filter: ExponentialFilter, length: int) -> Border:
    """Return the weights of the samples of whole rows, the sums of those of their parts."""
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
        for side, of_parts in enumerate((recipe.left, recipe.right)):
            weights[side, :, end, start : start + powers.shape[1]] += of_parts[number][:, None] * powers
    parts = np.stack([weights.real, weights.imag], 1).reshape(4 * poles, 2, count)
    constants = recipe.constants
    return Border(
        parts[:, 0].copy(),
        None if count == length else parts[:, 1].copy(),
        np.stack([constants.real, constants.imag], 1).reshape(-1, 1)
        if axis_filter.mode == "constant"
        else None,
    )


def _joined(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return complex states (outer, poles, inner) as those of :meth:`Border.states`."""
    return np.concatenate([before.real, before.imag, after.real, after.imag], 1)


def _weighted_sums(weights: Any, rows: Any) -> Any:
    """Return weighted sums (outer, weights, inner) of rows (outer, steps, inner)."""
    if rows.shape[2] == 1:
        return (rows[:, :, 0] @ weights.T)[:, :, None]
    return weights @ rows


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
