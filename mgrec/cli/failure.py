"""How the command fails: one line on standard error, and an exit code."""

from __future__ import annotations

import errno
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from distributed import KilledWorker

COMPUTING_FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130

EXIT_CODES = """\b
Exit codes:
  0    done
  1    computing or writing failed
  2    bad usage or input, or a cluster that cannot be reached
  130  interrupted (ctrl-C)"""


class Failure(click.ClickException):
    """A failure that a user can understand without a traceback: one line."""

    exit_code = COMPUTING_FAILED

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class BadInput(Failure):
    """The command line, a file or a cluster is not what it should be."""

    exit_code = BAD_INPUT


class Interrupted(Failure):
    """The user pressed ctrl-C."""

    exit_code = INTERRUPTED


@contextmanager
def in_one_line(interrupted: str) -> Iterator[None]:
    """Turn whatever goes wrong inside into a :class:`Failure`.

    Parameters
    ----------
    interrupted : str
        What ctrl-C leaves behind.
    """
    try:
        with _interrupts_remembered():
            yield
    except click.ClickException:
        raise
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted: {interrupted}") from None
    except Exception as error:
        raise Failure(_described(error)) from error


_interrupt = threading.Event()


def check_interrupt() -> None:
    """Raise what ctrl-C did not raise, or what was lost.

    What is raised in a callback of the garbage collector, and distributed has one, is dropped.
    """
    if _interrupt.is_set():
        raise KeyboardInterrupt


@contextmanager
def _interrupts_remembered() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: Any) -> None:
        _interrupt.set()
        if not _is_dropped_in(frame):
            raise KeyboardInterrupt

    _interrupt.clear()
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.default_int_handler)


def _is_dropped_in(frame: Any) -> bool:
    """Python would print what is raised here, and go on."""
    while frame is not None:
        if frame.f_code.co_name in ("_gc_callback", "__del__"):
            return True
        frame = frame.f_back
    return False


def _described(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full: {_place(error)}"
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        return f"the file is larger than this system allows (ulimit -f): {_place(error)}"
    if isinstance(error, KilledWorker):
        return (
            "computing failed: workers died again and again, most likely for want of memory: use "
            "smaller chunks (--chunk), more memory a worker, or --memory two-pass (linear)"
        )
    if isinstance(error, MemoryError):
        return f"out of memory: {error or 'use smaller chunks'}"
    notes = [note.removeprefix("mgrec: ") for note in getattr(error, "__notes__", ())]
    where = f" ({'; '.join(notes)})" if notes else ""
    return f"computing failed: {type(error).__name__}: {error}{where}"


def _place(error: OSError) -> Any:
    return error.filename or error.strerror
