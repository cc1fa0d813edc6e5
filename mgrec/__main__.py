"""The command ``mgrec``; a signal ends it in one line, also while its imports run."""

from __future__ import annotations

import os
import signal

from .cli.signals import WORDS


def main() -> None:
    """Run the command; a signal before or after its work ends the process at once."""
    for number in WORDS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _stop)
    # Imports of a second or more, during which the handlers stand already.
    from .cli.command import main as command

    try:
        command(prog_name="mgrec")
    finally:
        # CPython notes a KeyboardInterrupt that passes through an exec() of text, such as that of a
        # dataclass in an import, and would end the process by SIGINT although click has caught it.
        # The next exec() clears the note.
        exec("")


def _stop(number: int, frame: object) -> None:
    # There is nothing to clean up, and an exception may be lost in an import.
    try:
        os.write(2, f"Error: {WORDS[signal.Signals(number)]}\n".encode())
    finally:
        os._exit(128 + number)


if __name__ == "__main__":
    main()
