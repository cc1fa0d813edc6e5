"""Calls of a kind that was determined before: see :class:`mgrec.core.contract.kernels.Kernels`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.algebra.transfer_map import TransferMap
from ...core.arrays.chunk import Chunk, is_uncopied
from ...core.contract.kernels import PreparedSolver
from ...engines.cuda.launches import LaunchByAddress, prepare_cached
from .carry_in import states_of
from .determine import prepare
from .long_coefficients import is_ahead


def prepare_solver(
    transfer_map: TransferMap, chunk: Chunk, carry_in: tuple[Any, ...], results: tuple[Any, ...]
) -> PreparedSolver | None:
    """Prepare what determines chunks of the kind of this one.

    Returns
    -------
    callable, ``(given, targets) -> None``, or None
        `given` are the chunk's operands, those of coefficients included, and the states before
        the first step: addresses of arrays, and numbers. Nothing that it does can fail for other
        values. None where coefficients are evaluated ahead, in launches of their own, and where
        states are spread over rows.
    """
    states = states_of(carry_in, chunk)
    if is_ahead(chunk) or not all(map(is_uncopied, states, carry_in)):
        return None
    bound = LaunchByAddress(prepare_cached(prepare, transfer_map, chunk, states, results))

    def solve(given: Sequence[Any], targets: Sequence[int]) -> None:
        bound([*given, *targets])

    return solve
