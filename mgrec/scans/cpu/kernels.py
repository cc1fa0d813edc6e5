"""Kernels for any transfer map: plain loops over rows, or over the columns of each step.

The carried state goes through ``apply`` alone, step after step, so `determine` gives the bits of
the sequential loop; ``compose`` serves `precompute`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numba

from ...core.algebra.fingerprint import StepFunction, is_within_limit
from ...core.algebra.transfer_map import TransferMap
from ...engines.cpu.compilation import INNER, compile_kernel
from ...engines.cpu.kernel_cache import IN_MEMORY
from ...engines.cpu.user_functions import CACHE_SIZE, compile_step
from .operands import Sources, cast, cell_at, cells_at, rows_of, store_each, values_at

# Columns whose maps are composed together: they stay in the L2 cache.
COLUMNS = 4096
# Most columns that take four steps at a time.
NARROW = 128


class Functions(NamedTuple):
    """The compiled functions of a map; ``lift`` takes the flat operands. `key` identifies them."""

    lift: Any
    compose: Any
    apply: Any
    key: tuple[str, ...]


@lru_cache(maxsize=4 * CACHE_SIZE)
def kernel_of(
    build: Callable[..., Any], transfer_map: TransferMap, sources: Sources, several: bool = False
) -> Any:
    """Return the kernel that ``build(lift, compose, apply)`` returns for a map.

    `several` says whether the state is a tuple of scalars; in kernels it always is one.
    """
    lift, compose, apply, key = functions_of(transfer_map, sources)
    kernel = build(lift, compose, apply if several else _tupled(apply))
    return compile_kernel(kernel, build.__name__, *key, repr(several))


@lru_cache(maxsize=CACHE_SIZE)
def functions_of(transfer_map: TransferMap, sources: Sources) -> Functions:
    """Return the functions of a map, of which ``lift`` calls those of the coefficients."""
    transfer_map.require_unchanged()
    lift = compile_step(transfer_map.lift)
    if any(function for function, _ in sources):
        lift = _with_coefficients(lift, sources)
    compose, apply = compile_step(transfer_map.compose), compile_step(transfer_map.apply)
    return Functions(lift, compose, apply, _key(transfer_map, sources))


def _with_coefficients(lift: Any, sources: Sources) -> Any:
    """Return ``lift`` of the flat operands, which calls the functions of the coefficients."""
    scope: dict[str, Any] = {"__name__": "mgrec", "lift": lift}
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
    return numba.njit(**INNER)(scope["fused"])


def _key(transfer_map: TransferMap, sources: Sources) -> tuple[str, ...]:
    functions = [f"{function and function.fingerprint}:{count}" for function, count in sources]
    owners: list[TransferMap | StepFunction] = [transfer_map, *filter(None, dict(sources))]
    is_on_disk = all(is_within_limit(owner.codes, owner.fingerprint) for owner in owners)
    return (transfer_map.fingerprint, *functions, *(() if is_on_disk else (IN_MEMORY,)))


def _tupled(apply: Any) -> Any:
    @numba.njit(**INNER)
    def one(step: Any, state: Any) -> Any:
        return (apply(step, state[0]),)

    return one


def determine_rows(lift: Any, compose: Any, apply: Any) -> Callable[..., None]:
    def determine(operands: Any, carry_in: Any, results: Any, reverse: bool) -> None:
        rows, steps = results[0].shape
        for row in range(rows):
            operand = rows_of(operands, row)
            result = rows_of(results, row)
            state = values_at(carry_in, row)
            for step in range(steps):
                index = steps - 1 - step if reverse else step
                state = cast(apply(lift(*values_at(operand, index)), state), results)
                store_each(result, index, state)

    return determine


def determine_columns(lift: Any, compose: Any, apply: Any) -> Callable[..., None]:
    # All columns of a step: blocks of columns, pieces of 4 KB, defeat the prefetcher (2.4 ns a
    # step, not 1.1). Few columns take four steps at a time: 1.3 ns, not 2.0, with 16 columns.
    def determine(operands: Any, carry_in: Any, results: Any, reverse: bool, start: int, stop: int) -> None:
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

    return determine


def precompute_rows(lift: Any, compose: Any, apply: Any) -> Callable[..., None]:
    def precompute(operands: Any, steps: int, maps: Any, reverse: bool) -> None:
        for row in range(maps[0].shape[0]):
            operand = rows_of(operands, row)
            first = steps - 1 if reverse else 0
            chunk = cast(lift(*values_at(operand, first)), maps)
            for step in range(1, steps):
                index = steps - 1 - step if reverse else step
                chunk = cast(compose(chunk, lift(*values_at(operand, index))), maps)
            store_each(maps, row, chunk)

    return precompute


def precompute_columns(lift: Any, compose: Any, apply: Any) -> Callable[..., None]:
    def precompute(operands: Any, steps: int, maps: Any, reverse: bool) -> None:
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

    return precompute


def propagate_maps(lift: Any, compose: Any, apply: Any) -> Callable[..., None]:
    def propagate(maps: Any, carry_in: Any, carry_outs: Any) -> None:
        for row in range(carry_outs[0].shape[0]):
            store_each(carry_outs, row, apply(values_at(maps, row), values_at(carry_in, row)))

    return propagate


def carry_outs_of_last_segments(lift: Any, compose: Any, apply: Any) -> Callable[..., None]:
    def propagate(operands: Any, steps: int, carry_outs: Any, is_reset: Any, reverse: bool) -> None:
        rows, columns = is_reset.shape
        for row in range(rows):
            for column in range(columns):
                last = 0
                while last < steps:
                    index = last if reverse else steps - 1 - last
                    if cell_at(operands[0], row, index, column):
                        break
                    last += 1
                is_reset[row, column] = last < steps
                if last < steps:
                    # The step with the mark does not use the state.
                    state = values_at(carry_outs, (row, column))
                    for k in range(last, -1, -1):
                        index = k if reverse else steps - 1 - k
                        step_map = lift(*cells_at(operands, row, index, column))
                        state = cast(apply(step_map, state), carry_outs)
                    store_each(carry_outs, (row, column), state)

    return propagate


# The logarithm of a running product is taken once it leaves this range.
_SMALL, _LARGE = 2.0**-500, 2.0**500


def log_product(lift: Any, compose: Any, apply: Any) -> Callable[..., float]:
    """Build the kernel that returns log2 of the product of the coefficients of a row."""

    def evidence(operands: Any, steps: int, reverse: bool) -> float:
        operand = rows_of(operands, 0)
        total, product = 0.0, 1.0
        for step in range(steps):
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

    return evidence
