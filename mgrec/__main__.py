"""The command ``mgrec``. A signal ends it with one line, even during its imports."""

from __future__ import annotations

import os
import signal

from .cli.signals import WORDS


def main() -> None:
    """Run the command; a signal before or after its work ends the process at once."""
    for number in WORDS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _stop)
    # These imports take a second or more; the handlers are installed before.
    from .cli.command import main as command

    try:
        command(prog_name="mgrec")
    finally:
        # If a KeyboardInterrupt passes through exec(), as in the import of a dataclass, CPython
        # ends the process by SIGINT although click has caught it. Another exec() prevents that.
        exec("")


def _stop(number: int, frame: object) -> None:
    # Nothing needs cleaning up, and an import may drop an exception.
    try:
        os.write(2, f"Error: {WORDS[signal.Signals(number)]}\n".encode())
    finally:
        os._exit(128 + number)


if __name__ == "__main__":
    main()
