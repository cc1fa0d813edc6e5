"""Log once a process that compiled code cannot be kept on disk."""

from __future__ import annotations

import logging

logger = logging.getLogger("mgrec")
_told: set[str] = set()


def say_uncached(variable: str, reason: str) -> None:
    """Log once, for all kernels, that code is not kept; `variable` names the folder."""
    if variable not in _told:
        _told.add(variable)
        logger.info(
            "compiled code is not kept on disk, and the next process compiles again (%s): set "
            "%s to a folder that can be written",
            reason,
            variable,
        )
