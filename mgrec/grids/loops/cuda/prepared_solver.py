"""Wavefront loops of a kind that was determined before: by the addresses of their arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....core.arrays.array_types import is_on_gpu
from ....core.contract.kernels import PreparedSolver
from ....engines.cuda.launches import LaunchByAddress
from ...cuda.transposition import copying, is_transposed
from ..recurrence import Borders, Loop
from .determine import Laid, lay, picked, turned

# Where operands stand among those of the loop, if rows stand for its columns.
_TURNED = 0, 2, 1, 3, 5, 4, 6
# Of the kernel's struct, words of an operand, and where the table is.
_WORDS, _TABLE = 4, 28


def again_loop(
    loop: Loop, local: Any, weights: Sequence[Any], borders: Borders, table: Any
) -> PreparedSolver | None:
    """Prepare what determines loops over other arrays of the kind of these.

    None where an array is copied other than by turning it.
    """
    if loop.strategy == "hyperplane":
        return None
    way, order = picked(loop, (local, *weights), table), tuple(range(len(_TURNED)))
    if way.is_turned:
        order = _TURNED
        local, weights, borders, table = turned(local, weights, borders, table)
    arrays = [local, *weights, borders.above, borders.left, borders.corner]
    laid = lay(loop, way, local, weights, borders, table)
    is_written = laid.whole.array is table
    if not (is_written or is_transposed(table)):
        return None
    whole = None if is_written else table.swapaxes(-1, -2)
    on_gpu = [position for position, array in enumerate(arrays) if is_on_gpu(array)]
    copied = {
        position: arrays[position]
        for position in on_gpu
        if _is_copy(laid, position, arrays[position])
    }
    if not all(map(is_transposed, copied.values())):
        return None
    return Grids(laid, {position: order[position] for position in on_gpu}, copied, whole)


def _is_copy(laid: Laid, position: int, array: Any) -> bool:
    return bool(laid.operands[position].array.data.ptr != array.data.ptr)


class Grids:
    """A loop over grids by their addresses; over transposed copies of some.

    Parameters
    ----------
    laid : Laid
        Of other grids, of which nothing is kept but the numbers on the device.
    places : dict
        Of the arrays among the operands: where they are among those that a call gives.
    copied : dict
        Of the operands those that are copied, by their places.
    whole : array or None
        The table where the kernel writes a copy.
    """

    def __init__(
        self, laid: Laid, positions: dict[int, int], copied: dict[int, Any], whole: Any
    ) -> None:
        self._bound, self._words, self._positions = LaunchByAddress(laid.run), laid.words, positions
        self._numbers = [
            operand.array
            for position, operand in enumerate(laid.operands)
            if position not in positions
        ]
        self._copied = {position: _Copy(array) for position, array in copied.items()}
        self._whole = None if whole is None else _Copy(whole)

    def __call__(self, given: Sequence[Any], targets: Sequence[int]) -> None:
        words, held = list(self._words), []
        for position, own in self._positions.items():
            address = given[own]
            if position in self._copied:
                held.append(self._copied[position].memory())
                self._copied[position](address, held[-1].data.ptr)
                address = held[-1].data.ptr
            words[position * _WORDS] = address
        (target,) = targets
        if self._whole is not None:
            held.append(self._whole.memory())
            target = held[-1].data.ptr
        words[_TABLE] = target
        self._bound([words])
        if self._whole is not None:
            self._whole(target, *targets)


class _Copy:
    """Copies of arrays such as one that is contiguous but for its last two axes exchanged."""

    def __init__(self, array: Any) -> None:
        self._shape, self._dtype = array.shape, array.dtype
        self._bound = LaunchByAddress(copying(array.shape, array.dtype.itemsize))

    def memory(self) -> Any:
        import cupy

        return cupy.empty(self._shape, self._dtype)

    def __call__(self, source: int, target: int) -> None:
        self._bound([[source, target, *self._shape[-2:]]])
