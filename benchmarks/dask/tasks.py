"""An empty task, in a file of its own: workers import it by name."""

from typing import Any


def nothing(*results: Any) -> None:
    """Take the results of other tasks, and do nothing."""
