"""Signals that stop a command: ctrl-C, SIGTERM of a batch system, SIGHUP of a closed terminal.

Handlers belong to the whole process: they are installed only while a command runs.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_NAMED = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "hung up"}
WORDS = {signal.Signals[name]: _NAMED[name] for name in _NAMED if hasattr(signal, name)}
"""Signals that stop the command, and the words that say so."""

_arrived: list[int] = []
_held = threading.Event()


@contextmanager
def raised() -> Iterator[None]:
    """Raise KeyboardInterrupt for each of these signals, so that all is cleaned up.

    SIGTERM and SIGHUP stay ignored if they were, as after ``nohup``.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {}
    try:
        for number in WORDS:
            if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, _stop)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
        _arrived.clear()


def _stop(number: int, frame: Any) -> None:
    is_first = not _arrived
    _arrived.append(number)
    # A closed terminal sends SIGHUP more than once: cleaning up goes on. Ctrl-C stops it.
    is_wanted = is_first or number == signal.SIGINT
    if is_wanted and not _held.is_set() and not _is_dropped_in(frame):
        raise KeyboardInterrupt


def _is_dropped_in(frame: Any) -> bool:
    """Whether Python would print an exception raised here, and go on."""
    while frame is not None:
        if frame.f_code.co_name in ("_gc_callback", "__del__"):
            return True
        frame = frame.f_back
    return False


@contextmanager
def held_back() -> Iterator[None]:
    """Let the body finish: signals are only remembered."""
    was_held = _held.is_set()
    _held.set()
    try:
        yield
    finally:
        if not was_held:
            _held.clear()


def first() -> signal.Signals | None:
    """The first signal that came to this command."""
    return signal.Signals(_arrived[0]) if _arrived else None


def check() -> None:
    """Raise KeyboardInterrupt if a signal came that was held back or dropped.

    Python drops what is raised in a callback of the garbage collector, and distributed has one.
    """
    if _arrived:
        raise KeyboardInterrupt
