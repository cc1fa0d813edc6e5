"""Names of tasks and layers: the phase, and a token of the solve."""

from __future__ import annotations

from typing import Any

PHASES = ("pack", "speculate", "precompute", "propagate", "determine")
"""In their order; a pack loads the operands of a chunk, which is begun where it may forget."""


def phase_of(key: Any) -> str | None:
    """The phase of a task, from its key or its layer's name; None for a task of others.

    Examples
    --------
    >>> phase_of(("propagate-0a1b", 0, 3))
    'propagate'
    >>> phase_of("sum-aggregate-0a1b") is None
    True
    """
    name = key[0] if isinstance(key, tuple) else key
    phase = str(name).partition("-")[0]
    return phase if phase in PHASES else None
