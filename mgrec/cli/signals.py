"""Signals that stop a command: ctrl-C, SIGTERM of a batch system, SIGHUP of a closed terminal.

Handlers belong to the whole process, so they are installed only while a command runs.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_NAMES = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "hung up"}
WORDS = {signal.Signals[name]: _NAMES[name] for name in _NAMES if hasattr(signal, name)}
"""Signals that stop the command, and the words for them in messages."""

_received: list[int] = []
_is_deferred = threading.Event()


@contextmanager
def raised() -> Iterator[None]:
    """Raise KeyboardInterrupt for each signal, so that the command cleans up.

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
        _received.clear()


def _stop(number: int, frame: Any) -> None:
    # A closed terminal sends SIGHUP several times, which must not stop the clean-up. Ctrl-C does.
    may_stop = not _received or number == signal.SIGINT
    _received.append(number)
    while frame is not None:
        # Python prints and drops exceptions that are raised in these functions.
        if frame.f_code.co_name in ("_gc_callback", "__del__"):
            return
        frame = frame.f_back
    if may_stop and not _is_deferred.is_set():
        raise KeyboardInterrupt


@contextmanager
def deferred() -> Iterator[None]:
    """Defer signals until the body has finished."""
    was_deferred = _is_deferred.is_set()
    _is_deferred.set()
    try:
        yield
    finally:
        if not was_deferred:
            _is_deferred.clear()


def first() -> signal.Signals | None:
    """Return the first signal that the command received."""
    return signal.Signals(_received[0]) if _received else None


def check() -> None:
    """Raise KeyboardInterrupt if a signal was deferred, or dropped by the garbage collector."""
    if _received:
        raise KeyboardInterrupt
