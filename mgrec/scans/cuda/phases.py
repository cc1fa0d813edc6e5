"""precompute and determine for one chunk of CuPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...core.algebra.transfer_map import TransferMap
from ...core.arrays.array_types import raise_if_capturing
from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import Kernels
from ...engines.cuda.device import SCRATCH_IS_SHARED, on_device
from ...engines.cuda.launches import run_cached
from ..affine import AffineSummary
from ..summary import ComposedMaps
from .carry_in import spread, states_of
from .correct import correct
from .determine import prepare
from .long_coefficients import determine_in_pieces, is_ahead
from .precompute import launch_precompute
from .prepared_solver import prepare_solver
from .speculate import speculate
from .summary import launch_summary

Arrays = tuple[Any, ...]


def precompute(
    transfer_map: TransferMap, chunk: Chunk
) -> Callable[[], AffineSummary | ComposedMaps]:
    """Launch the reduction of every row of a chunk to one map.

    Parameters
    ----------
    transfer_map : TransferMap
    chunk : Chunk
        Of CuPy arrays on the current device, and host scalars.

    Returns
    -------
    callable, ``() -> summary``
        Waits for the kernels; the summary is in host memory.
    """
    chunk = chunk.map_arrays(on_device, chunk.shape)
    if transfer_map.redoes_rows_of(chunk.dtype):
        return launch_summary(chunk)
    return launch_precompute(transfer_map, chunk)


def kernels(method: str) -> Kernels:
    """The phases of a chunk, determined by the kernels of a method."""
    own = determine_by(method)
    if method == "p-scheme":
        return Kernels(own, precompute)
    return Kernels(
        own, precompute, prepare_solver=prepare_solver, speculate=speculate, correct=correct
    )


def determine_by(method: str) -> Callable[[TransferMap, Chunk, Arrays, Arrays], None]:
    """The determination by the kernels of a method."""
    return _by_p_scheme if method == "p-scheme" else _in_a_single_pass


def _in_a_single_pass(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays
) -> None:
    if results[0].size:
        solve = partial(run_cached, prepare)
        solve = partial(determine_in_pieces, solve) if is_ahead(chunk) else solve
        solve(transfer_map, chunk, states_of(carry_in, chunk), results)


def _by_p_scheme(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays
) -> None:
    from .p_scheme import phases as p_scheme

    if results[0].size:
        raise_if_capturing("method 'p-scheme'", SCRATCH_IS_SHARED)
        chunk = chunk.map_arrays(on_device, chunk.shape)
        states = [spread(state, chunk) for state in states_of(carry_in, chunk)]
        p_scheme.Phases(transfer_map, chunk, tuple(states), results)()
