"""In which order the cells of a wavefront loop are computed (Hou, Wang & Feng 2018)."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from ...core.algebra.operators import Operators, check_composes
from ...core.arrays.validation import is_one_of
from .recurrence import Loop

STRATEGIES = ("hybrid", "tiles", "compensation", "hyperplane")

logger = logging.getLogger("mgrec")


def check_strategy(strategy: Any, operators: Operators, kind: str, has_floor: bool) -> None:
    """Raise unless a strategy is known and does for these operators and numbers of a kind."""
    if not is_one_of(strategy, STRATEGIES):
        wanted = ", ".join(map(repr, STRATEGIES))
        raise ValueError(f"strategy must be one of {wanted}; got {strategy!r}")
    if strategy != "compensation":
        return
    if has_floor and operators.accumulate != "max":
        raise ValueError(
            "strategy must be 'tiles' or 'hybrid' where there is a floor and ◇ is not 'max', since "
            "the larger of a sum and the floor is no scan; got 'compensation'"
        )
    check_composes(operators, kind)


def is_compensable(loop: Loop, dtype: np.dtype[Any]) -> bool:
    """Whether ``"hybrid"`` may take compensation."""
    try:
        check_strategy("compensation", loop.operators, dtype.kind, loop.floor is not None)
    except ValueError:
        return False
    return True


def log_picked(loop: Loop, strategy: str, table: Any) -> None:
    """Log at level DEBUG what ``"hybrid"`` has picked, by the logger ``mgrec``."""
    if loop.strategy == "hybrid" and logger.isEnabledFor(logging.DEBUG):
        logger.debug("wavefront: %s, shape %s, %s", strategy, table.shape, table.dtype)
