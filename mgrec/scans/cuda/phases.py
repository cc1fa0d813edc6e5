"""The phases of a chunk of CuPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ...core.algebra.transfer_map import TransferMap
from ...core.arrays.chunk import Chunk, is_uncopied
from ...core.contract.kernels import PreparedSolver
from ...engines.cuda.device import SCRATCH_IS_SHARED, on_device, raise_if_capturing
from ...engines.cuda.launches import LaunchByAddress, prepare_cached, run_cached
from ..kernels import ScanKernels
from ..speculation import correct
from . import p_scheme
from .determine import broadcast_state, prepare, states_of
from .long_coefficients import determine_in_pieces, is_ahead
from .precompute import precompute
from .products import multiply_by_states
from .speculation import speculate

Arrays = tuple[Any, ...]


def kernels(method: str) -> ScanKernels:
    """Return the phases of a chunk, determined by the kernels of a method."""
    if method == "p-scheme":
        return ScanKernels(_by_p_scheme, precompute)
    return ScanKernels(
        _in_a_single_pass, precompute, prepare_solver=prepare_solver, speculate=speculate,
        correct=partial(correct, _in_a_single_pass), multiply_by_states=multiply_by_states,
    )  # fmt: skip


def _in_a_single_pass(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays
) -> None:
    if results[0].size:
        solve = partial(run_cached, prepare)
        solve = partial(determine_in_pieces, solve) if is_ahead(chunk) else solve
        solve(transfer_map, chunk, states_of(carry_in, chunk, results[0].dtype), results)


def _by_p_scheme(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays
) -> None:
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
