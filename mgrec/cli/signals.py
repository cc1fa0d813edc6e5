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
    """Raise KeyboardInterrupt for each of these signals, so that the command cleans up.

    SIGTERM and SIGHUP stay ignored if they were, as after ``nohup``.
    """
    before = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in WORDS:
                if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
                    before[number] = signal.signal(number, _stop)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
        _arrived.clear()


def _stop(number: int, frame: Any) -> None:
    # A closed terminal sends SIGHUP more than once: cleaning up goes on. Ctrl-C stops it.
    is_wanted = not _arrived or number == signal.SIGINT
    _arrived.append(number)
    while frame is not None:
        # Python prints and drops what is raised here.
        if frame.f_code.co_name in ("_gc_callback", "__del__"):
            return
        frame = frame.f_back
    if is_wanted and not _held.is_set():
        raise KeyboardInterrupt


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
    return signal.Signals(_arrived[0]) if _arrived else None


def check() -> None:
    """Raise KeyboardInterrupt if a signal came that was held back or dropped.

    Python drops what is raised in a callback of the garbage collector, and distributed has one.
    """
    if _arrived:
        raise KeyboardInterrupt
