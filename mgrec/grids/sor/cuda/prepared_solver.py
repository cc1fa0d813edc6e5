"""Sweeps over whole grids of a kind: what was cut up and compiled for some stands for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....core.arrays.array_types import is_on_gpu
from ....core.contract.kernels import PreparedSolver
from ....engines.cuda.device import Device
from ....engines.cuda.launches import LaunchByAddress, PreparedLaunches
from ..sweeps import Sweeps
from .grids import Batch, most_of, refuse_numbered, weights_of
from .layout import cut_of, groups_of, launches_of
from .program import launch_of

_Step = tuple[LaunchByAddress, list[int], tuple[int, int] | None]


def relaxation_again(loop: Sweeps, x: Any, *rest: Any) -> PreparedSolver | None:
    """Prepare what sweeps grids of the kind of some, always as often.

    Parameters
    ----------
    loop : Sweeps
    x : array (..., rows, columns)
    *rest : arrays
        The right-hand side, if there is one, and the result.

    Returns
    -------
    callable, ``(given, targets) -> None``, or None
        None where updates are asked for, nothing is swept, the right-hand side is copied first,
        or grids take several launches a sweep.
    """
    *sides, result = rest
    if loop.tol is not None or min(x.shape[-2:]) < 3:
        return None
    batch = Batch.of(x, sides[0] if sides else None, result)
    has_rhs = bool(sides)
    if has_rhs and not (is_on_gpu(sides[0]) and batch.rhs.data.ptr == sides[0].data.ptr):
        return None
    steps = _steps(loop, batch)
    if steps is None:
        return None

    def solve(given: Sequence[int], targets: Sequence[int]) -> None:
        source, target = given[0], targets[0]
        for bound, words, numbered in steps:
            if numbered:
                refuse_numbered(*numbered)
            bound([[source, given[1] if has_rhs else 0, target, 0, 0, *words]])
            source = target

    return solve


def _steps(loop: Sweeps, batch: Batch) -> list[_Step] | None:
    """The launches, what they take besides addresses, and whose strips tell each other edges."""
    device, dtype, shape = Device.current(), batch.x.dtype, batch.x.shape[-2:]
    has_rhs, steps = batch.rhs is not None, list[_Step]()
    sizes = groups_of(dtype, has_rhs, device.shared_bytes)
    for sweeps in launches_of(loop.sweeps, sizes):
        cut = cut_of((batch.count, *shape), dtype, sweeps, has_rhs, False, device)
        if batch.count > most_of(cut.edge_words, cut.strips):
            return None
        slots = cut.slots(device)
        words = [*weights_of(loop.omega, dtype), batch.rhs_stride, *cut.shape]
        words += [cut.strips, cut.tiles, slots]
        bound = LaunchByAddress(
            PreparedLaunches(launch_of(cut, device), units=slots * cut.edge_words)
        )
        steps.append((bound, words, (shape[0], sweeps) if cut.edge_words else None))
    return steps
