"""Which operand of a tridiagonal system holds nan or inf.

Kernels make a system that holds nan or inf nan, and no other, by the way. So operands are read
again only where a result is not finite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ..core.contract.recurrence import ChunkInputs, Shape
    from .recurrence import TridiagonalSystem

NAMES = ("dl", "d", "du", "b")


def is_all_finite(array: Any) -> bool:
    """Whether an array holds neither nan nor inf."""
    with np.errstate(over="ignore", invalid="ignore"):
        # Half the time of isfinite, and no memory. A sum may overflow where no number is inf.
        return bool(np.isfinite(array.sum())) or bool(np.isfinite(array).all())


def check_operands(system: TridiagonalSystem, inputs: ChunkInputs, shape: Shape) -> None:
    """Raise if an operand of a chunk of this shape holds nan or inf.

    What dl and du hold outside the matrix does not count.
    """
    for number, name in enumerate(NAMES):
        counted, ahead = _counted(system, inputs, shape, number)
        if is_all_finite(counted):
            continue
        position = np.unravel_index(int((~np.isfinite(counted)).argmax()), counted.shape)
        where = _index(system, inputs, number, [int(k) for k in position], ahead)
        raise ValueError(
            f"{name} must hold no nan or inf; got {counted[position]}{where}. With "
            f"check_finite=False its system becomes nan, and no other"
        )


def _counted(
    system: TridiagonalSystem, inputs: ChunkInputs, shape: Shape, number: int
) -> tuple[Any, int]:
    """What counts of an operand's block, and how many steps were cut off ahead of it."""
    block, ends = inputs.blocks[number], system.ends(inputs, shape)
    axis = system.axis - len(shape) + block.ndim
    is_first, is_last = number == 0 and ends.has_first, number == 2 and ends.has_last
    if axis >= 0 and system.varying[number][axis]:
        inside = slice(int(is_first), block.shape[axis] - int(is_last))
        return block[(slice(None),) * axis + (inside,)], int(is_first)
    if (is_first or is_last) and system.length == 1:
        return block.reshape(-1)[:0], 0
    return block, 0


def _index(
    system: TridiagonalSystem, inputs: ChunkInputs, number: int, position: list[int], ahead: int
) -> str:
    """The index of a number in its operand, as the user gave it."""
    lacking = len(inputs.starts) - len(position)
    for k, is_varying in enumerate(system.varying[number]):
        if is_varying:
            position[k] += inputs.starts[lacking + k] + (ahead if lacking + k == system.axis else 0)
    if system.rhs_axis is not None and number < NAMES.index("b") and system.rhs_axis >= lacking:
        # The diagonals were given without this axis.
        del position[system.rhs_axis - lacking]
    return f" at index {tuple(position)}" if position else ""
