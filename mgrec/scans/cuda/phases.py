"""The phases of a chunk of CuPy arrays.

The single pass determines a chunk from its carry-in. Another pass composes every row to its
summary.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ...core.algebra.transfer_map import TransferMap
from ...core.arrays.chunk import Chunk, is_uncopied
from ...core.contract.kernels import PreparedSolver
from ...engines.cuda.device import SCRATCH_IS_SHARED, Device, fetch, on_device, raise_if_capturing
from ...engines.cuda.launches import LaunchByAddress, PreparedLaunches, prepare_cached, run_cached
from ...engines.cuda.tracing import state_count
from ..kernels import ScanKernels, correct
from ..summaries import NAN, AffineSummary, Maps, guarded_affine, rows_to_redo
from . import p_scheme
from .coefficients import compose_in_pieces, determine_in_pieces, is_ahead, multiply_by_states
from .determine import broadcast_state, prepare, states_of
from .layouts import choose_precompute
from .program import ScanLayout, describe, stored_dtype
from .reduction import launch_reduction
from .shards import prepare_linked, prepare_shard
from .speculation import speculate

logger = logging.getLogger("mgrec")
Arrays = tuple[Any, ...]


def kernels(method: str) -> ScanKernels:
    """Return the phases of a chunk, determined by the kernels of a method."""
    if method == "p-scheme":
        return ScanKernels(_by_p_scheme, precompute)
    return ScanKernels(
        _in_a_single_pass,
        precompute,
        prepare_solver=prepare_solver,
        speculate=speculate,
        correct=partial(correct, _in_a_single_pass),
        multiply_by_states=multiply_by_states,
        prepare_shard=prepare_shard,
        prepare_linked=prepare_linked,
    )


def _in_a_single_pass(transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays) -> None:
    if results[0].size:
        solve = partial(run_cached, prepare)
        solve = partial(determine_in_pieces, solve) if is_ahead(chunk) else solve
        solve(transfer_map, chunk, states_of(carry_in, chunk, results[0].dtype), results)


def _by_p_scheme(transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays) -> None:
    if results[0].size:
        raise_if_capturing("method 'p-scheme'", SCRATCH_IS_SHARED)
        chunk = chunk.map_arrays(on_device, chunk.shape)
        states = [broadcast_state(state, chunk) for state in states_of(carry_in, chunk)]
        p_scheme.Phases(transfer_map, chunk, tuple(states), results)()


def prepare_solver(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays
) -> PreparedSolver | None:
    """Return a solver for chunks of the same shapes and dtypes.

    The solver takes addresses of arrays, and numbers: the chunk's operands, those of coefficients
    included, with the states before the first step; and the results. Other values cannot make it
    fail. None if coefficients are evaluated ahead, or states are broadcast to rows.
    """
    states = states_of(carry_in, chunk, results[0].dtype)
    if is_ahead(chunk) or not all(map(is_uncopied, states, carry_in)):
        return None
    bound = LaunchByAddress(prepare_cached(prepare, transfer_map, chunk, states, results))

    def solve(arguments: Sequence[Any], targets: Sequence[int]) -> None:
        bound([*arguments, *targets])

    return solve


def _reserve(*shape: int) -> tuple[Any, ...]:
    import cupy

    return (cupy.empty(shape, cupy.uint8),)


def prepare_precompute(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Any, results: Any, layout: ScanLayout | None = None
) -> PreparedLaunches:
    """Compile the launches that write the maps (components, outer, inner), the only result."""
    source = describe(chunk, stored_dtype(chunk))
    width, states = len(transfer_map.identity), state_count(transfer_map)
    layout = layout or choose_precompute(chunk, source, width, states, Device.current())
    is_guarded = chunk.dtype.kind == "f" and transfer_map == guarded_affine(chunk.dtype)
    layout = replace(layout, guarded=is_guarded)
    *launches, spans = launch_reduction(transfer_map, chunk, source, layout, results[0])
    return PreparedLaunches(*launches, reserve=partial(_reserve, *spans))


def compose(transfer_map: TransferMap, chunk: Chunk) -> Callable[[], Maps]:
    """Launch the composition of every row of a chunk; the returned function waits for the maps."""
    import cupy

    if is_ahead(chunk):
        composed = compose_in_pieces(compose, transfer_map, chunk)
        return lambda: composed
    maps = cupy.empty((len(transfer_map.identity), *chunk.row_shape), chunk.dtype)
    run_cached(prepare_precompute, transfer_map, chunk, (), (maps,))
    wait = fetch(maps)
    return lambda: tuple(wait())


def precompute(transfer_map: TransferMap, chunk: Chunk) -> Callable[[], AffineSummary | Maps]:
    """Launch the summary of a chunk of CuPy arrays on the current device, and host scalars."""
    chunk = chunk.map_arrays(on_device, chunk.shape)
    if not transfer_map.redoes_rows_of(chunk.dtype):
        return compose(transfer_map, chunk)
    composed = compose(guarded_affine(chunk.dtype), chunk)
    return lambda: _summary_of(chunk, composed())


def _summary_of(chunk: Chunk, maps: Maps) -> AffineSummary:
    mantissa, _, offset, *_ = maps
    _, exponent, _, growth, more, _, _, flag = (part.real for part in maps)
    offset[flag == NAN] = np.nan
    wide = np.result_type(chunk.dtype, np.float64)
    with np.errstate(all="ignore"):
        # Beyond ±2**40 no state remains, and rows with such a growth are redone.
        known = np.where(exponent == exponent, exponent, 0).astype(np.float64)
        exponents = np.minimum(np.maximum(known, -(2.0**40)), 2.0**40)
        return AffineSummary(
            mantissa.astype(wide),
            exponents.astype(np.int64),
            offset,
            np.log2(growth.astype(np.float64)) + more,
            rows_to_redo(chunk, flag),
        )
