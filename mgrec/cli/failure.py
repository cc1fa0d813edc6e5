"""Failures of the command: one line on standard error, and an exit code."""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

import click
from distributed import KilledWorker

from . import signals

COMPUTING_FAILED = 1
BAD_INPUT = 2

EXIT_CODES = """\b
Exit codes:
  0    done
  1    computing or writing failed
  2    bad usage or input, or a cluster that cannot be reached
  129  hung up (SIGHUP), but for nohup
  130  interrupted (ctrl-C)
  141  standard output was closed, as by head
  143  terminated (SIGTERM)"""


class Failure(click.ClickException):
    """A failure that is shown as one line, without a traceback."""

    exit_code = COMPUTING_FAILED

    def __init__(self, message: str) -> None:
        super().__init__(_with_flags(" ".join(message.split())))


class BadInput(Failure):
    """The command line, a file or a cluster is not what it should be."""

    exit_code = BAD_INPUT


class Interrupted(Failure):
    """The user pressed ctrl-C, a batch system ended the job, or the terminal was closed."""

    def __init__(self, number: signal.Signals, left: str) -> None:
        super().__init__(f"{signals.WORDS[number]}: {left}")
        self.exit_code = 128 + number  # type: ignore[misc]  # as of a shell

    def show(self, file: Any = None) -> None:
        # A terminal that was closed takes no message.
        with suppress(OSError):
            super().show(file)


def _with_flags(message: str) -> str:
    """Name options as the command does: --method auto where a function says method='auto'."""
    context = click.get_current_context(silent=True)
    for option in context.command.params if context else ():
        if isinstance(option, click.Option):
            message = re.sub(rf"\b{option.name}='(\S+?)'", rf"{option.opts[-1]} \1", message)
            for flag in option.secondary_opts:
                message = message.replace(f"{option.name}=False", flag)
    return message


class Closed(Failure):
    """Whoever read standard output wants no more: nothing is shown."""

    exit_code = 128 + signal.SIGPIPE

    def show(self, file: Any = None) -> None:
        """Show nothing."""


@contextmanager
def quiet_if_closed(file: TextIO) -> Iterator[None]:
    """Raise :class:`Closed` if the reader of a pipe, such as ``head``, closes it."""
    try:
        yield
        file.flush()
    except BrokenPipeError:
        # Python writes the rest of the buffer when it ends, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())
        raise Closed("standard output was closed") from None


@contextmanager
def in_one_line(left: str) -> Iterator[None]:
    """Turn whatever is raised inside into a :class:`Failure`.

    `left` is the state after a failure, such as "w.npy was not written": messages of signals and
    of full disks end with it.
    """
    with signals.raised():
        try:
            yield
        except KeyboardInterrupt:
            raise Interrupted(signals.first() or signal.SIGINT, left) from None
        except Exception as error:
            if stopped := signals.first():
                # Errors on the way out, as of writing to a terminal that is gone, do not count.
                raise Interrupted(stopped, left) from error
            if isinstance(error, click.ClickException):
                raise
            raise Failure(_described(error, left)) from error


def _described(error: Exception, left: str) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full: {_named(error)}; {left}"
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        return f"the file is larger than this system allows (ulimit -f): {_named(error)}; {left}"
    if isinstance(error, KilledWorker):
        return (
            "computing failed: workers died again and again, most likely for want of memory: use "
            "smaller chunks (--chunk), more memory a worker, or --memory two-pass (linear and "
            "tridiagonal)"
        )
    if isinstance(error, MemoryError):
        return f"out of memory: {error or 'use smaller chunks'}"
    notes = [note.removeprefix("mgrec: ") for note in getattr(error, "__notes__", ())]
    where = f" ({'; '.join(notes)})" if notes else ""
    return f"computing failed: {type(error).__name__}: {error}{where}"


def _named(error: OSError) -> Any:
    return error.filename or error.strerror
