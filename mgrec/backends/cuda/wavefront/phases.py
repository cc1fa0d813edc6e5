"""determine for one tile of a grid on a GPU."""

from __future__ import annotations

from typing import Any

from ....families.kernels import Kernels
from ....families.wavefront.recurrence import SummedAreaTable
from .table import determine_table


def kernels(method: str) -> Kernels:
    """The phase of a tile."""
    return Kernels(determine, hold=_refuse)


def determine(loop: Any, *tile: Any) -> Any:
    """The edges of a tile; its results are written."""
    return determine_table(*tile) if isinstance(loop, SummedAreaTable) else _refuse()


def _refuse(*given: Any) -> Any:
    raise NotImplementedError(
        "there are no kernels for this wavefront recurrence over arrays on a GPU yet: move the "
        "arrays to host memory with cupy.asnumpy"
    )
