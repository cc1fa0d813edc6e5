"""What is said, once a process, where compiled code cannot be kept on disk."""

from __future__ import annotations

import logging

logger = logging.getLogger("mgrec")
_told: set[str] = set()


def say_uncached(variable: str, reason: str) -> None:
    """Say, at the level of information, that code is not kept: every kernel would.

    Parameters
    ----------
    variable : str
        Of the environment, which names the folder.
    reason : str
    """
    if variable not in _told:
        _told.add(variable)
        logger.info(
            "compiled code is not kept on disk, and the next process compiles again (%s): set "
            "%s to a folder that can be written",
            reason,
            variable,
        )
