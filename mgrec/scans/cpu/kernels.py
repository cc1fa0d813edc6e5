"""Kernels for any transfer map: plain loops over rows, or over the columns of each step.

The carried state goes through ``apply`` alone, step after step, so `determine` gives the
bits of the sequential loop; ``compose`` serves `precompute`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numba

from ...core.algebra.fingerprint import StepFunction
from ...core.algebra.transfer_map import TransferMap
from ...core.algebra.variants import is_within_limit
from ...engines.cpu.compilation import CACHE_SIZE, IN_MEMORY, INNER, compile_kernel, compile_step
from .tuples import cast, cells_at, rows_of, store_each, values_at

# Columns whose maps are composed together: they stay in the L2 cache.
COLUMNS = 4096
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
    """``lift`` as a function of the flat operands, and its part of a kernel's key."""

    lift: Any
    key: tuple[str, ...]


Sources = tuple[tuple[StepFunction | None, int], ...]
"""Of each operand of ``lift``: a coefficient's function, or None, and how many of the flat
operands it takes."""


@lru_cache(maxsize=CACHE_SIZE)
def transfer_kernels(transfer_map: TransferMap, sources: Sources, several: bool) -> TransferKernels:
    """Kernels of a transfer map; `several`: the state is a tuple of scalars."""
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
    kept = all(is_within_limit(owner.codes, owner.fingerprint) for owner in owners)
    return key if kept else (*key, IN_MEMORY)


@lru_cache(maxsize=CACHE_SIZE)
def fused_lift(transfer_map: TransferMap, sources: Sources) -> Fused:
    """``lift`` as a function of the flat operands, coefficients computed on the way.

    Raises
    ------
    RuntimeError
        What the functions read has changed since they were given.
    """
    transfer_map.require_unchanged()
    scope: dict[str, Any] = {"__name__": "mgrec", "lift": compile_step(transfer_map.lift)}
    arguments, at = [], 0
    for number, (function, count) in enumerate(sources):
        operands = ", ".join(f"x{at + k}" for k in range(count))
        if function is None:
            arguments.append(operands)
        else:
            function.require_unchanged()
            scope[f"f{number}"] = compile_step(function.function)
            arguments.append(f"f{number}({operands})")
        at += count
    flat = ", ".join(f"x{k}" for k in range(at))
    exec(f"def fused({flat}): return lift({', '.join(arguments)})", scope)
    return Fused(numba.njit(**INNER)(scope["fused"]), _key(transfer_map, sources))


def tupled(apply: Any, several: bool) -> Any:
    """``apply`` of a state that is always a tuple."""
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
                at = steps - 1 - step if reverse else step
                state = cast(apply(lift(*values_at(operand, at)), state), results)
                store_each(result, at, state)

    return determine_rows


def _determine_columns(lift: Any, apply: Any) -> Callable[..., None]:
    # Whole lines: blocks of columns, pieces of 4 KB, defeat the prefetcher (2.4 ns a step, not
    # 1.1). In narrow lines a column takes four steps at a time: 1.3 ns, not 2.0, with 16 columns.
    def determine_columns(
        operands: Any, carry_in: Any, results: Any, reverse: bool, begin: int, end: int
    ) -> None:
        rows, steps, _ = results[0].shape
        for row in range(rows):
            for first in range(0, steps, 4):
                before = steps - first if reverse else first - 1
                if first == 0 or steps - first < 4 or end - begin > NARROW:
                    for step in range(first, min(first + 4, steps)):
                        at = steps - 1 - step if reverse else step
                        before = at + 1 if reverse else at - 1
                        for column in range(begin, end):
                            if step == 0:
                                state = values_at(carry_in, (row, column))
                            else:
                                state = values_at(results, (row, before, column))
                            step_map = lift(*cells_at(operands, row, at, column))
                            store_each(results, (row, at, column), apply(step_map, state))
                else:
                    for column in range(begin, end):
                        state = values_at(results, (row, before, column))
                        for k in range(4):
                            at = steps - 1 - first - k if reverse else first + k
                            step_map = lift(*cells_at(operands, row, at, column))
                            state = cast(apply(step_map, state), results)
                            store_each(results, (row, at, column), state)

    return determine_columns


def _precompute_rows(lift: Any, compose: Any) -> Callable[..., None]:
    def precompute_rows(operands: Any, steps: int, maps: Any, reverse: bool) -> None:
        for row in range(maps[0].shape[0]):
            operand = rows_of(operands, row)
            first = steps - 1 if reverse else 0
            chunk = cast(lift(*values_at(operand, first)), maps)
            for step in range(1, steps):
                at = steps - 1 - step if reverse else step
                chunk = cast(compose(chunk, lift(*values_at(operand, at))), maps)
            store_each(maps, row, chunk)

    return precompute_rows


def _precompute_columns(lift: Any, compose: Any) -> Callable[..., None]:
    def precompute_columns(operands: Any, steps: int, maps: Any, reverse: bool) -> None:
        rows, columns = maps[0].shape
        for row in range(rows):
            for left in range(0, columns, COLUMNS):
                for step in range(steps):
                    at = steps - 1 - step if reverse else step
                    for column in range(left, min(left + COLUMNS, columns)):
                        later = lift(*cells_at(operands, row, at, column))
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
