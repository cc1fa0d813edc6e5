"""Errors that name a singular system, or an entry of an operand that is nan or inf."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ..core.contract.recurrence import ChunkInputs, Shape

NAMES = ("dl", "d", "du", "b")
"""Names of the operands of tridiagonal systems."""


class SingularSystemError(np.linalg.LinAlgError):
    """Elimination meets a pivot of 0 in system `number` of a chunk (outer, inner), in C order."""

    def __init__(self, number: int) -> None:
        super().__init__(f"system number {number} is singular: elimination meets a pivot of 0")
        self.number = number


def check_outcomes(outcomes: Sequence[int]) -> None:
    """Raise SingularSystemError unless all outcomes of kernels, a singular system or -1, are -1."""
    singular = max(outcomes, default=-1)
    if singular >= 0:
        raise SingularSystemError(singular)


@contextmanager
def name_singular_system(system: Any, starts: Sequence[int], shape: Shape) -> Iterator[None]:
    """Replace SingularSystemError of a chunk by an error with the index in the user's array."""
    try:
        yield
    except SingularSystemError as error:
        steps_shape = shape[: len(shape) - system.number_axes]
        counts = [1 if k == system.axis else length for k, length in enumerate(steps_shape)]
        raise singular_error(system, np.unravel_index(error.number, counts), starts) from None


def singular_error(
    system: Any, position: Sequence[Any], starts: Sequence[int], where: str = ""
) -> np.linalg.LinAlgError:
    """Return an error with the index of a system, over all axes except `axis` and `rhs_axis`."""
    index = tuple(
        int(k) + start if start >= 0 else "?"
        for axis, (k, start) in enumerate(zip(position, starts, strict=False))
        if axis not in (system.axis, system.rhs_axis)
    )
    text = f"({', '.join(map(str, index))}{',' if len(index) == 1 else ''})"
    label = f"system {text}" if index else "the system"
    if system.method in system.pivoting_methods:
        return np.linalg.LinAlgError(f"{label} is singular: elimination meets a pivot of 0")
    return np.linalg.LinAlgError(
        f"{label} has a pivot of 0{where}: method {system.method!r} does not pivot, and the system may be "
        f"regular. method='auto' pivots, and reports whether the system is singular"
    )


def is_all_finite(array: Any) -> bool:
    """Return whether an array contains neither nan nor inf."""
    with np.errstate(over="ignore", invalid="ignore"):
        # Half the time of isfinite, and no memory. The sum may overflow without any inf.
        return bool(np.isfinite(array.sum())) or bool(np.isfinite(array).all())


def check_operands(system: Any, inputs: ChunkInputs, shape: Shape) -> None:
    """Raise ValueError if an operand of a chunk contains nan or inf inside the matrix.

    Kernels fill a system that contains nan or inf with nan, so that operands are read again only
    if a result is not finite.
    """
    for number, block in enumerate(inputs.blocks):
        before, after = system.outside(inputs, shape, number)
        axis, first_row = system.axis - len(shape) + block.ndim, 0
        if axis >= 0 and system.varying[number][axis]:
            inside = slice(before, max(block.shape[axis] - after, before))
            block, first_row = block[(slice(None),) * axis + (inside,)], before
        elif before + after >= shape[system.axis]:
            block = block.reshape(-1)[:0]
        check_entries(system, number, block, inputs.starts, first_row)


def check_entries(system: Any, number: int, entries: Any, starts: Sequence[int], first_row: int = 0) -> None:
    """Raise ValueError if entries of a block, from a row on, contain nan or inf."""
    if is_all_finite(entries):
        return
    position = np.unravel_index(int((~np.isfinite(entries)).argmax()), entries.shape)
    where = _operand_index(system, starts, number, [int(k) for k in position], first_row)
    raise ValueError(
        f"{system.names[number]} must hold no nan or inf; got {entries[position]}{where}. With "
        f"check_finite=False its system becomes nan, and no other"
    )


def _operand_index(
    system: Any, starts: Sequence[int], number: int, position: list[int], first_row: int
) -> str:
    """Return " at index ...", the index in the user's operand."""
    missing = len(starts) - len(position)
    for k, is_varying in enumerate(system.varying[number]):
        if is_varying:
            is_axis = missing + k == system.axis
            position[k] += starts[missing + k] + (first_row if is_axis else 0)
    if system.rhs_axis is not None and number < len(system.names) - 1 and system.rhs_axis >= missing:
        # The user's diagonals do not have this axis.
        del position[system.rhs_axis - missing]
    if system.number_axes and number < len(system.names) - 1:
        position[-1:] = divmod(position[-1], system.block)
    return f" at index {tuple(position)}" if position else ""
