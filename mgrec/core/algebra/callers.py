"""The line of the user's code to which a warning refers."""

from __future__ import annotations

import sys


def level_of_caller() -> int:
    """Return the ``stacklevel`` of the first frame outside of this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] == "mgrec":
        frame, level = frame.f_back, level + 1
    return level
