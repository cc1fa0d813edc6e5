"""Failures of the command: one line on standard error, and an exit code."""

from __future__ import annotations

import errno
import os
import re
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

import click
from distributed import KilledWorker

from . import signals

EXIT_CODES = """\b
Exit codes:
  0    done
  1    computing or writing failed
  2    bad usage or input, or a cluster that cannot be reached
  129  hung up (SIGHUP), but for nohup
  130  interrupted (ctrl-C)
  141  standard output was closed, as by head
  143  terminated (SIGTERM)"""
FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk is full",
    errno.EFBIG: "the file is larger than this system allows (ulimit -f)",
}


class Failure(click.ClickException):
    """A failure that the command shows as one line, or silently if the message is empty."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(_with_options(" ".join(message.split())))
        self.exit_code = exit_code  # type: ignore[misc]  # of the class in click

    def show(self, file: Any = None) -> None:
        with suppress(OSError):  # a terminal that was closed
            if self.message:
                super().show(file)


class BadInput(Failure):
    """The command line, a file or a cluster is invalid."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 2)


def _with_options(message: str) -> str:
    """Replace parameters by options: --rhs-axis, and --no-check-finite for check_finite=False."""
    context = click.get_current_context(silent=True)
    for option in context.command.params if context else ():
        for negative in option.secondary_opts:
            message = message.replace(f"{option.name}=False", negative)
        if "_" in (option.name or "") and option.param_type_name == "option":
            # Not within the name of a file, such as rhs_axis.npy.
            whole_word = rf"(?<![\w/.-]){option.name}(?![\w/-]|\.\w)"
            message = re.sub(whole_word, option.opts[0], message)
    return message


@contextmanager
def in_one_line(state: str) -> Iterator[None]:
    """Convert all exceptions and signals of the body to a :class:`Failure`.

    Messages of signals and of full disks end with `state`, such as "w.npy was not written".
    """
    with signals.raised():
        try:
            yield
            if sys.stdout is not None:  # the caller closed it
                sys.stdout.flush()
        except (Exception, KeyboardInterrupt) as error:
            # A signal comes before errors of the clean-up after it.
            number = signals.first()
            if isinstance(error, KeyboardInterrupt):
                number = number or signal.SIGINT
            if number:
                raise Failure(f"{signals.WORDS[number]}: {state}", 128 + number) from error
            if isinstance(error, click.ClickException):
                raise
            if isinstance(error, BrokenPipeError) and _is_closed(sys.stdout):
                raise Failure("", 128 + signal.SIGPIPE) from None
            raise Failure(_described(error, state)) from error


def _is_closed(file: TextIO | None) -> bool:
    """Return whether the reader of a pipe, such as ``head``, has closed it."""
    if file is None:
        return False
    try:
        file.flush()
    except BrokenPipeError:
        # At exit Python writes the remaining buffer, and would report an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())
        return True
    # An unbuffered file (PYTHONUNBUFFERED) has nothing to flush.
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    try:
        poll.register(file.fileno(), 0)
    except (OSError, ValueError):  # a file in memory
        return False
    return any(events & select.POLLERR for _, events in poll.poll(0))


def _described(error: BaseException, state: str) -> str:
    if isinstance(error, OSError) and error.errno in FULL:
        return f"{FULL[error.errno]}: {error.filename or error.strerror}; {state}"
    notes = [note.removeprefix("mgrec: ") for note in getattr(error, "__notes__", ())]
    if isinstance(error, (FileNotFoundError, PermissionError)):
        notes.append("files must lie on a file system that every worker sees, under one path")
    if isinstance(error, (KilledWorker, MemoryError)):
        notes.append("use smaller chunks (--chunk) or more memory a worker")
    details = f" ({'; '.join(notes)})" if notes else ""
    return f"computing failed: {type(error).__name__}: {error}{details}"
