"""What tasks and layers are called: the phase, and a token of what is solved."""

from __future__ import annotations

from typing import Any

PHASES = ("pack", "precompute", "propagate", "determine")
"""In the order of the work; a pack loads the operands of a chunk."""


def phase_of(key: Any) -> str | None:
    """The phase of a task, by its key or by its layer's name; None for what is not mgrec's.

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
