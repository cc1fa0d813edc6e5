"""Whatever goes wrong is one line and an exit code."""

import errno
import gc
import signal

import click
import pytest
from distributed import KilledWorker

from mgrec.cli import failure


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (OSError(errno.ENOSPC, "No space left", "w.npy"), 1, ["disk is full", "w.npy"]),
        (OSError(errno.EDQUOT, "Quota exceeded"), 1, ["disk is full", "Quota"]),
        (OSError(errno.EFBIG, "File too large", "w.npy"), 1, ["ulimit -f", "w.npy"]),
        (MemoryError("Unable to allocate"), 1, ["out of memory", "allocate"]),
        (KilledWorker("determine", None, 3), 1, ["workers died", "smaller chunks"]),
        (ZeroDivisionError("by\nzero"), 1, ["ZeroDivisionError", "by zero"]),
        (KeyboardInterrupt(), 130, ["interrupted", "w.npy was not written"]),
        (failure.BadInput("no such axis"), 2, ["no such axis"]),
    ],
)
def test_an_error_becomes_a_line(error, code, words):
    with (
        pytest.raises(click.ClickException) as caught,
        failure.in_one_line("w.npy was not written"),
    ):
        raise error
    assert caught.value.exit_code == code
    assert "\n" not in caught.value.message
    assert all(word in caught.value.message for word in words)


def test_success_is_left_alone():
    with failure.in_one_line("nothing"):
        pass


@pytest.mark.parametrize("is_known", [True, False])
def test_ctrl_c_inside_a_callback_of_the_garbage_collector_is_not_lost(monkeypatch, is_known):
    def other(phase, information):
        signal.raise_signal(signal.SIGINT)

    def _gc_callback(phase, information):  # as distributed's is called
        signal.raise_signal(signal.SIGINT)

    press = _gc_callback if is_known else other
    before, lost = signal.getsignal(signal.SIGINT), []
    monkeypatch.setattr("sys.unraisablehook", lost.append)
    with pytest.raises(failure.Interrupted), failure.in_one_line("w.npy was not written"):
        gc.callbacks.append(press)
        try:
            gc.collect()
        finally:
            gc.callbacks.remove(press)
        failure.check_interrupt()
        pytest.fail("the interrupt was lost")
    assert bool(lost) is not is_known
    assert signal.getsignal(signal.SIGINT) is before
    with failure.in_one_line("nothing"):
        failure.check_interrupt()
