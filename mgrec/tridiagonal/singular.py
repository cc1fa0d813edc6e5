"""Singular systems, by their index in the user's array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..core.contract.recurrence import Shape
    from .recurrence import TridiagonalSystem


class SingularSystemError(np.linalg.LinAlgError):
    """What kernels raise: elimination meets a pivot of 0.

    Attributes
    ----------
    number : int
        Of the system among those of the chunk, (outer, inner), in C order.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"system number {number} is singular: elimination meets a pivot of 0")
        self.number = number


@contextmanager
def named(system: TridiagonalSystem, starts: Sequence[int], shape: Shape) -> Iterator[None]:
    """Name the system whose elimination meets a pivot of 0, in a chunk of this shape."""
    try:
        yield
    except SingularSystemError as error:
        which = _which(system, starts, shape, error.number)
        if system.method in system.by_partitions:
            message = f"{which} is singular: elimination meets a pivot of 0"
        else:
            message = (
                f"{which} has a pivot of 0: method {system.method!r} does not pivot, and the "
                f"system may be regular. method='auto' pivots, and says whether it is singular"
            )
        raise np.linalg.LinAlgError(message) from None


def _which(system: TridiagonalSystem, starts: Sequence[int], shape: Shape, number: int) -> str:
    """A system by its index over all axes but those of unknowns and right-hand sides."""
    own = [1 if k == system.axis else length for k, length in enumerate(shape)]
    position = np.unravel_index(number, own)
    index = tuple(
        int(k) + start if start >= 0 else "?"
        for axis, (k, start) in enumerate(zip(position, starts, strict=True))
        if axis not in (system.axis, system.rhs_axis)
    )
    told = f"({', '.join(map(str, index))}{',' if len(index) == 1 else ''})"
    return f"system {told}" if index else "the system"
