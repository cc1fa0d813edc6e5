"""The axis of right-hand sides, which b has and the diagonals of its matrices do not."""

from __future__ import annotations

from typing import Any

from ..core.arrays.chunk import shape_of
from ..core.arrays.validation import as_integer


def apart(checked: dict[str, Any], axis: Any, rhs_axis: Any) -> tuple[dict[str, Any], int]:
    """The operands, the diagonals with an axis of length 1 where b has its right-hand sides.

    Parameters
    ----------
    checked : dict, name -> array or scalar
        dl, d, du and b.
    axis, rhs_axis : int
        Of the result: of the unknowns, and of the right-hand sides.

    Returns
    -------
    dict, name -> array or scalar
    int
        `rhs_axis`, counted from the end.
    """
    *diagonals, b = checked.values()
    given = [len(shape_of(each)) for each in (*diagonals, b)]
    ndim = max(given[3], 1 + max(given[:3]))
    own = as_integer("rhs_axis", rhs_axis)
    if not -ndim <= own < ndim:
        raise ValueError(f"rhs_axis must be from {-ndim} to {ndim - 1}, an axis of b; got {own}")
    if own % ndim == as_integer("axis", axis) % ndim:
        raise ValueError(
            f"rhs_axis must be another axis than axis={axis}, that of the unknowns; got {own}"
        )
    after = ndim - 1 - own % ndim
    if given[3] <= after:
        raise ValueError(
            f"b must have the axis rhs_axis={rhs_axis} of {ndim} axes, one more than the "
            f"diagonals; got shape {shape_of(b)}"
        )
    names = list(checked)[:-1]
    widened = {name: _widened(checked[name], after) for name in names}
    return {**widened, "b": b}, -after - 1


def _widened(value: Any, after: int) -> Any:
    """An array with an axis of length 1 ahead of its last `after` axes."""
    before = len(shape_of(value)) - after
    if before <= 0:
        return value
    return value[(slice(None),) * before + (None,)]
