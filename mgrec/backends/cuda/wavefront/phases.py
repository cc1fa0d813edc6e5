"""determine for one tile of a grid on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....families.kernels import Kernels
from ....families.wavefront.loops.recurrence import Loop
from ....families.wavefront.recurrence import SummedAreaTable
from ....families.wavefront.sweeps import Sweeps
from .loops.phases import determine_loop
from .relaxation.grids import determine_relaxation
from .relaxation.held import hold
from .table import determine_table

_KERNELS: dict[type, Callable[..., Any]] = {
    SummedAreaTable: lambda loop, *tile: determine_table(*tile),
    Sweeps: determine_relaxation,
    Loop: determine_loop,
}


def kernels(method: str) -> Kernels:
    """The phase of a tile."""
    return Kernels(determine, hold=hold)


def determine(loop: Any, *tile: Any) -> Any:
    """What the kernel of a loop returns, mostly edges of the tile; its results are written."""
    return _KERNELS.get(type(loop), _refuse)(loop, *tile)


def _refuse(*given: Any) -> Any:
    raise NotImplementedError(
        "there are no kernels for this wavefront recurrence over arrays on a GPU yet: move the "
        "arrays to host memory with cupy.asnumpy"
    )
