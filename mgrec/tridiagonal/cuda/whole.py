"""Whole systems without pivoting: a plan of launches for one shape, and its runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...engines.cuda.device import Device, pack_words
from ...engines.cuda.launches import Launch, PreparedLaunches, RunLaunches, Slot
from ..singular import SingularSystemError
from .memory import strides_of

Shape = tuple[int, int, int]
SYSTEMS = Slot(0)
"""What every kernel takes by value first: operands, result, memory and sizes."""
_NONE = -1


@dataclass(frozen=True)
class Plan:
    """How systems of one shape are solved.

    Attributes
    ----------
    launches : tuple of Launch
        Their first argument is :data:`SYSTEMS`.
    scratch : int
        Numbers of memory that they share.
    """

    launches: tuple[Launch, ...]
    scratch: int = 0


Build = Callable[[Shape, np.dtype[Any], Device], Plan]


def launch_whole(build: Build, chunk: Chunk, result: Any) -> Any:
    """Launch the solution of whole systems; those that hold nan or inf become nan.

    Parameters
    ----------
    build : callable, ``(shape, dtype, device) -> Plan``
    chunk : Chunk
        Its operands are on the device.
    result : array (outer, steps, inner)
        C-contiguous; written.

    Returns
    -------
    array of int64
        On the device: the first system of which a pivot is 0 or overflows, or -1; whether no
        operand holds nan or inf; the same of each system.
    """
    import cupy

    device = cupy.cuda.runtime.getDevice()
    run, scratch_numbers = _prepared(build, chunk.shape, chunk.dtype, device)
    scratch = cupy.empty(scratch_numbers, chunk.dtype)
    status = cupy.empty(2 + chunk.shape[0] * chunk.shape[2], np.int64)
    status.fill(_NONE)
    words: list[int] = []
    for operand in chunk.operands:
        words += [operand.data.ptr, *strides_of(operand.shape, chunk.shape)]
    words += [result.data.ptr, scratch.data.ptr, status.data.ptr]
    run((pack_words([*words, *chunk.shape]),))
    return status


def solve_whole(build: Build, chunk: Chunk, result: Any) -> bool:
    """Solve whole systems, and wait; whether no operand holds nan or inf.

    Raises
    ------
    SingularSystemError
        A pivot is 0, or overflows.
    """
    singular, are_finite = launch_whole(build, chunk, result)[:2].get()
    if singular != _NONE:
        raise SingularSystemError(int(singular))
    return bool(are_finite)


@lru_cache(maxsize=1024)
def _prepared(
    build: Build, shape: Shape, dtype: np.dtype[Any], device: int
) -> tuple[RunLaunches, int]:
    plan = build(shape, dtype, Device.current())
    return PreparedLaunches(*plan.launches), plan.scratch
