"""The script ``mgrec``: a signal ends it in one line, also while its imports run.

They take a second or more, and importing any module of the package begins them. Therefore this is
a module of its own.
"""

import os
import signal

_NAMED = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "hung up"}
WORDS = {signal.Signals[name]: _NAMED[name] for name in _NAMED if hasattr(signal, name)}
"""Signals that stop the command, and the words that say so."""


def main() -> None:
    """Run the command; a signal before or after its work ends the process at once."""
    for number in WORDS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _stop)
    from mgrec.cli import main as command

    command(prog_name="mgrec")


def _stop(number: int, frame: object) -> None:
    # There is nothing to clean up, and an exception may be lost in an import.
    try:
        os.write(2, f"Error: {WORDS[signal.Signals(number)]}\n".encode())
    finally:
        os._exit(128 + number)
