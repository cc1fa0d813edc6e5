"""Linear recurrences of first order."""

from __future__ import annotations

from typing import Any

from ..phases.affine import affine
from ..phases.door import check
from ..placement import solve


def linear_recurrence(
    s: Any,
    t: Any,
    initial: Any = None,
    *,
    axis: int = -1,
    reverse: bool = False,
    memory: str = "stream",
) -> Any:
    """Solve w_i = s_i·w_{i-1} + t_i along an axis."""
    start = 0 if initial is None else initial
    problem = check(affine, {"s": s, "t": t}, start, axis, reverse)
    return solve(problem, memory)[0]
