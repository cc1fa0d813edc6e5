"""The head of a run of steps: what its carry-in changes of results that another carry-in gave."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from numba import njit

from ...core.algebra.transfer_map import TransferMap
from ...engines.cpu.compilation import CACHE_SIZE, INNER, compile_kernel, compile_step
from .kernels import Sources, fused_lift, tupled
from .tuples import are_same, cast, cells_at, rows_of, store_each, values_at

# Products are taken together until they leave these.
_SMALL, _LARGE = 2.0**-500, 2.0**500


@dataclass(frozen=True)
class PrefixKernels:
    """The compiled loops over the first steps of a row.

    Attributes
    ----------
    rejoin : callable
        Determine every row from another carry-in until the existing results are right. Returns
        the most steps that a row took; -1 if one took more than `most`, and its later rows are
        unchanged. Of w = s·w + t it is told how far the two carry-ins of a row are `apart`, and
        the unit roundoff; of other maps inf, so that no result stands but by its bits.
    evidence : callable
        Of the first steps of the first row. Of w = s·w + t: log2 of the product of their
        coefficients. Of other maps: whether two states coincide on their way.
    """

    rejoin: Any
    evidence: Any


@lru_cache(maxsize=CACHE_SIZE)
def prefix_kernels(
    transfer_map: TransferMap, sources: Sources, several: bool, is_linear: bool
) -> PrefixKernels:
    """Kernels of a transfer map; `is_linear`: of w = s·w + t in floating point."""
    fused = fused_lift(transfer_map, sources)
    apply = tupled(compile_step(transfer_map.apply), several)
    key = (transfer_map.fingerprint, *fused.key, repr(several), repr(is_linear))
    nearer = _shrunk if is_linear else _as_before
    evidence = _shrink(fused.lift) if is_linear else _coincide(fused.lift, apply)
    rejoin = _rejoin(fused.lift, apply, nearer)
    return PrefixKernels(compile_kernel(rejoin, *key), compile_kernel(evidence, *key))


@lru_cache(maxsize=CACHE_SIZE)
def rejoin_columns(transfer_map: TransferMap, sources: Sources, several: bool) -> Any:
    """The kernel that determines all columns again, until every result of a step stands.

    Returns the steps that it took, or -1 after `most`; `same` are the columns that stand then.
    """
    fused = fused_lift(transfer_map, sources)
    apply = tupled(compile_step(transfer_map.apply), several)
    key = (transfer_map.fingerprint, *fused.key, repr(several))
    return compile_kernel(_rejoin_columns(fused.lift, apply), *key)


def _rejoin_columns(lift: Any, apply: Any) -> Callable[..., int]:
    def rejoin(
        operands: Any, carry_in: Any, results: Any, most: int, reverse: bool, same: Any
    ) -> int:
        _, steps, columns = results[0].shape
        for step in range(most):
            at = steps - 1 - step if reverse else step
            before, count = at + 1 if reverse else at - 1, 0
            for column in range(columns):
                if step == 0:
                    state = values_at(carry_in, (0, column))
                else:
                    state = values_at(results, (0, before, column))
                step_map = lift(*cells_at(operands, 0, at, column))
                state = cast(apply(step_map, state), results)
                same[column] = are_same(state, values_at(results, (0, at, column)))
                store_each(results, (0, at, column), state)
                count += same[column]
            if count == columns:
                return step
        return -1

    return rejoin


def _rejoin(lift: Any, apply: Any, nearer: Any) -> Callable[..., int]:
    def rejoin(
        operands: Any,
        carry_in: Any,
        results: Any,
        most: int,
        reverse: bool,
        apart: Any,
        unit: float,
    ) -> int:
        rows, steps = results[0].shape
        longest = 0
        for row in range(rows):
            operand, result = rows_of(operands, row), rows_of(results, row)
            state, difference, taken = values_at(carry_in, row), apart[row], -1
            for step in range(most):
                at = steps - 1 - step if reverse else step
                step_map = lift(*values_at(operand, at))
                state = cast(apply(step_map, state), results)
                difference = nearer(difference, step_map)
                there = values_at(result, at)
                is_near = difference < unit * float(abs(there[0]))
                # What overflows on its way does not come back, however small the product becomes.
                if (is_near and abs(state[0]) < math.inf) or are_same(state, there):
                    taken = step
                    break
                store_each(result, at, state)
            if taken < 0:
                return -1
            longest = max(longest, taken)
        return longest

    return rejoin


@njit(**INNER)
def _shrunk(difference: float, step_map: Any) -> float:
    return difference * float(abs(step_map[0]))


@njit(**INNER)
def _as_before(difference: float, step_map: Any) -> float:
    return difference


def _shrink(lift: Any) -> Callable[..., float]:
    def shrink(operands: Any, steps: int, count: int, reverse: bool) -> float:
        operand = rows_of(operands, 0)
        total, product = 0.0, 1.0
        for step in range(count):
            at = steps - 1 - step if reverse else step
            product *= float(abs(lift(*values_at(operand, at))[0]))
            if not _SMALL < product < _LARGE:
                if product == 0:
                    return -math.inf
                if not product < math.inf:
                    return math.inf
                total += math.log2(product)
                product = 1.0
        return total + math.log2(product)

    return shrink


def _coincide(lift: Any, apply: Any) -> Callable[..., bool]:
    def coincide(
        operands: Any, carry_in: Any, likes: Any, steps: int, count: int, reverse: bool
    ) -> bool:
        # The other state is one that the recurrence takes itself.
        operand, other = rows_of(operands, 0), values_at(carry_in, 0)
        for step in range(count):
            at = steps - 1 - step if reverse else step
            other = cast(apply(lift(*values_at(operand, at)), other), likes)
        state = values_at(carry_in, 0)
        for step in range(count):
            at = steps - 1 - step if reverse else step
            step_map = lift(*values_at(operand, at))
            state = cast(apply(step_map, state), likes)
            other = cast(apply(step_map, other), likes)
            if are_same(state, other):
                return True
        return False

    return coincide
