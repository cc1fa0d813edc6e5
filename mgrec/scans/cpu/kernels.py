"""Kernels for any transfer map: plain loops over rows, or over the columns of each step.

The carried state goes through ``apply`` alone, step after step, so `determine` gives the bits of
the sequential loop; ``compose`` serves `precompute`. Other kernels determine the first steps of a
piece again, from its true carry-in, over results from another one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numba
from numba import njit

from ...core.algebra.fingerprint import StepFunction
from ...core.algebra.transfer_map import TransferMap
from ...core.algebra.variants import is_within_limit
from ...engines.cpu.compilation import CACHE_SIZE, IN_MEMORY, INNER, compile_kernel, compile_step
from .operands import Sources, are_same, cast, cells_at, rows_of, store_each, values_at

# Columns whose maps are composed together: they stay in the L2 cache.
COLUMNS = 4096
# Most columns that take four steps at a time.
NARROW = 128


@dataclass(frozen=True)
class TransferKernels:
    """The compiled loops of one transfer map."""

    determine_rows: Any
    determine_columns: Any
    precompute_rows: Any
    precompute_columns: Any
    act: Any


@dataclass(frozen=True)
class Fused:
    """``lift`` as a function of the flat operands, and its part of the cache key of a kernel."""

    lift: Any
    key: tuple[str, ...]


@lru_cache(maxsize=CACHE_SIZE)
def transfer_kernels(transfer_map: TransferMap, sources: Sources, several: bool) -> TransferKernels:
    """Return the kernels of a transfer map; `several`: the state is a tuple of scalars."""
    fused = fused_lift(transfer_map, sources)
    transfer_map.require_unchanged()
    compose = compile_step(transfer_map.compose)
    apply = tupled(compile_step(transfer_map.apply), several)
    key = (transfer_map.fingerprint, *fused.key, repr(several))
    return TransferKernels(
        compile_kernel(_determine_rows(fused.lift, apply), *key),
        compile_kernel(_determine_columns(fused.lift, apply), *key),
        compile_kernel(_precompute_rows(fused.lift, compose), *key),
        compile_kernel(_precompute_columns(fused.lift, compose), *key),
        compile_kernel(_act(apply), *key),
    )


def _key(transfer_map: TransferMap, sources: Sources) -> tuple[str, ...]:
    key = tuple(f"{function and function.fingerprint}:{count}" for function, count in sources)
    owners: list[TransferMap | StepFunction] = [transfer_map, *filter(None, dict(sources))]
    is_on_disk = all(is_within_limit(owner.codes, owner.fingerprint) for owner in owners)
    return key if is_on_disk else (*key, IN_MEMORY)


@lru_cache(maxsize=CACHE_SIZE)
def fused_lift(transfer_map: TransferMap, sources: Sources) -> Fused:
    """Return ``lift`` as a function of the flat operands, which calls the coefficients' functions.

    Raise RuntimeError if a variable that the functions read has changed.
    """
    transfer_map.require_unchanged()
    scope: dict[str, Any] = {"__name__": "mgrec", "lift": compile_step(transfer_map.lift)}
    arguments, start = [], 0
    for number, (function, count) in enumerate(sources):
        operands = ", ".join(f"x{start + k}" for k in range(count))
        if function is None:
            arguments.append(operands)
        else:
            function.require_unchanged()
            scope[f"f{number}"] = compile_step(function.function)
            arguments.append(f"f{number}({operands})")
        start += count
    flat = ", ".join(f"x{k}" for k in range(start))
    exec(f"def fused({flat}): return lift({', '.join(arguments)})", scope)
    return Fused(numba.njit(**INNER)(scope["fused"]), _key(transfer_map, sources))


def tupled(apply: Any, several: bool) -> Any:
    """Return ``apply`` for states that are always tuples."""
    if several:
        return apply

    @numba.njit(**INNER)
    def one(step: Any, state: Any) -> Any:
        return (apply(step, state[0]),)

    return one


def _determine_rows(lift: Any, apply: Any) -> Callable[..., None]:
    def determine_rows(operands: Any, carry_in: Any, results: Any, reverse: bool) -> None:
        rows, steps = results[0].shape
        for row in range(rows):
            operand = rows_of(operands, row)
            result = rows_of(results, row)
            state = values_at(carry_in, row)
            for step in range(steps):
                index = steps - 1 - step if reverse else step
                state = cast(apply(lift(*values_at(operand, index)), state), results)
                store_each(result, index, state)

    return determine_rows


def _determine_columns(lift: Any, apply: Any) -> Callable[..., None]:
    # All columns of a step: blocks of columns, pieces of 4 KB, defeat the prefetcher (2.4 ns a
    # step, not 1.1). Few columns take four steps at a time: 1.3 ns, not 2.0, with 16 columns.
    def determine_columns(
        operands: Any, carry_in: Any, results: Any, reverse: bool, start: int, stop: int
    ) -> None:
        rows, steps, _ = results[0].shape
        for row in range(rows):
            for first in range(0, steps, 4):
                before = steps - first if reverse else first - 1
                if first == 0 or steps - first < 4 or stop - start > NARROW:
                    for step in range(first, min(first + 4, steps)):
                        index = steps - 1 - step if reverse else step
                        before = index + 1 if reverse else index - 1
                        for column in range(start, stop):
                            if step == 0:
                                state = values_at(carry_in, (row, column))
                            else:
                                state = values_at(results, (row, before, column))
                            step_map = lift(*cells_at(operands, row, index, column))
                            store_each(results, (row, index, column), apply(step_map, state))
                else:
                    for column in range(start, stop):
                        state = values_at(results, (row, before, column))
                        for k in range(4):
                            index = steps - 1 - first - k if reverse else first + k
                            step_map = lift(*cells_at(operands, row, index, column))
                            state = cast(apply(step_map, state), results)
                            store_each(results, (row, index, column), state)

    return determine_columns


def _precompute_rows(lift: Any, compose: Any) -> Callable[..., None]:
    def precompute_rows(operands: Any, steps: int, maps: Any, reverse: bool) -> None:
        for row in range(maps[0].shape[0]):
            operand = rows_of(operands, row)
            first = steps - 1 if reverse else 0
            chunk = cast(lift(*values_at(operand, first)), maps)
            for step in range(1, steps):
                index = steps - 1 - step if reverse else step
                chunk = cast(compose(chunk, lift(*values_at(operand, index))), maps)
            store_each(maps, row, chunk)

    return precompute_rows


def _precompute_columns(lift: Any, compose: Any) -> Callable[..., None]:
    def precompute_columns(operands: Any, steps: int, maps: Any, reverse: bool) -> None:
        rows, columns = maps[0].shape
        for row in range(rows):
            for left in range(0, columns, COLUMNS):
                for step in range(steps):
                    index = steps - 1 - step if reverse else step
                    for column in range(left, min(left + COLUMNS, columns)):
                        later = lift(*cells_at(operands, row, index, column))
                        if step == 0:
                            store_each(maps, (row, column), later)
                        else:
                            earlier = values_at(maps, (row, column))
                            store_each(maps, (row, column), compose(earlier, later))

    return precompute_columns


def _act(apply: Any) -> Callable[..., None]:
    def act(maps: Any, carry_in: Any, carry_outs: Any) -> None:
        for row in range(carry_outs[0].shape[0]):
            store_each(carry_outs, row, apply(values_at(maps, row), values_at(carry_in, row)))

    return act


# The logarithm of a running product is taken once it leaves this range.
_SMALL, _LARGE = 2.0**-500, 2.0**500


@dataclass(frozen=True)
class PrefixKernels:
    """The compiled loops over the first steps of a row.

    Attributes
    ----------
    rejoin : callable
        Determine every row from another carry-in until the existing results are right. Return the
        largest number of steps of a row, or -1 if a row takes more than `most`; later rows are then
        unchanged. `distances` of the two carry-ins of each row, and `unit`, the unit roundoff, are
        those of w = s·w + t. For other maps distances are inf: results must have the same bits.
    evidence : callable
        Return log2 of the product of the first coefficients of the first row (w = s·w + t), or
        whether two states coincide in its first steps (other maps).
    """

    rejoin: Any
    evidence: Any


@lru_cache(maxsize=CACHE_SIZE)
def prefix_kernels(
    transfer_map: TransferMap, sources: Sources, several: bool, is_linear: bool
) -> PrefixKernels:
    """Return the kernels of a map; `is_linear`: the map is w = s·w + t in floating point."""
    fused = fused_lift(transfer_map, sources)
    apply = tupled(compile_step(transfer_map.apply), several)
    key = (transfer_map.fingerprint, *fused.key, repr(several), repr(is_linear))
    next_distance = _shrink_distance if is_linear else _keep_distance
    evidence = _log_product(fused.lift) if is_linear else _coincide(fused.lift, apply)
    rejoin = _rejoin(fused.lift, apply, next_distance)
    return PrefixKernels(compile_kernel(rejoin, *key), compile_kernel(evidence, *key))


@lru_cache(maxsize=CACHE_SIZE)
def rejoin_columns(transfer_map: TransferMap, sources: Sources, several: bool) -> Any:
    """Return the kernel that determines all columns until it meets the existing results.

    The kernel returns its number of steps, or -1 after `most`; `same` are then the columns whose
    results agreed.
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
            index = steps - 1 - step if reverse else step
            before, count = index + 1 if reverse else index - 1, 0
            for column in range(columns):
                if step == 0:
                    state = values_at(carry_in, (0, column))
                else:
                    state = values_at(results, (0, before, column))
                step_map = lift(*cells_at(operands, 0, index, column))
                state = cast(apply(step_map, state), results)
                same[column] = are_same(state, values_at(results, (0, index, column)))
                store_each(results, (0, index, column), state)
                count += same[column]
            if count == columns:
                return step
        return -1

    return rejoin


def _rejoin(lift: Any, apply: Any, next_distance: Any) -> Callable[..., int]:
    def rejoin(
        operands: Any,
        carry_in: Any,
        results: Any,
        most: int,
        reverse: bool,
        distances: Any,
        unit: float,
    ) -> int:
        rows, steps = results[0].shape
        longest = 0
        for row in range(rows):
            operand, result = rows_of(operands, row), rows_of(results, row)
            state, distance, rejoined = values_at(carry_in, row), distances[row], -1
            for step in range(most):
                index = steps - 1 - step if reverse else step
                step_map = lift(*values_at(operand, index))
                state = cast(apply(step_map, state), results)
                distance = next_distance(distance, step_map)
                existing = values_at(result, index)
                is_near = distance < unit * float(abs(existing[0]))
                # A state that overflows stays infinite, however small the product becomes.
                if (is_near and abs(state[0]) < math.inf) or are_same(state, existing):
                    rejoined = step
                    break
                store_each(result, index, state)
            if rejoined < 0:
                return -1
            longest = max(longest, rejoined)
        return longest

    return rejoin


@njit(**INNER)
def _shrink_distance(distance: float, step_map: Any) -> float:
    return distance * float(abs(step_map[0]))


@njit(**INNER)
def _keep_distance(distance: float, step_map: Any) -> float:
    return distance


def _log_product(lift: Any) -> Callable[..., float]:
    def log_product(operands: Any, steps: int, count: int, reverse: bool) -> float:
        operand = rows_of(operands, 0)
        total, product = 0.0, 1.0
        for step in range(count):
            index = steps - 1 - step if reverse else step
            product *= float(abs(lift(*values_at(operand, index))[0]))
            if not _SMALL < product < _LARGE:
                if product == 0:
                    return -math.inf
                if not product < math.inf:
                    return math.inf
                total += math.log2(product)
                product = 1.0
        return total + math.log2(product)

    return log_product


def _coincide(lift: Any, apply: Any) -> Callable[..., bool]:
    def coincide(
        operands: Any, carry_in: Any, likes: Any, steps: int, count: int, reverse: bool
    ) -> bool:
        # The other state is one that the recurrence reaches itself.
        operand, other = rows_of(operands, 0), values_at(carry_in, 0)
        for step in range(count):
            index = steps - 1 - step if reverse else step
            other = cast(apply(lift(*values_at(operand, index)), other), likes)
        state = values_at(carry_in, 0)
        for step in range(count):
            index = steps - 1 - step if reverse else step
            step_map = lift(*values_at(operand, index))
            state = cast(apply(step_map, state), likes)
            other = cast(apply(step_map, other), likes)
            if are_same(state, other):
                return True
        return False

    return coincide
