"""Whatever goes wrong is one line and an exit code."""

import errno
import gc
import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from distributed import KilledWorker

import mgrec
from mgrec.cli import failure, signals, solve


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (OSError(errno.ENOSPC, "No space left", "part"), 1, ["disk is full: part; w.npy was not"]),
        (OSError(errno.EDQUOT, "Quota exceeded"), 1, ["disk is full: Quota exceeded; w.npy was"]),
        (OSError(errno.EFBIG, "File too large", "w.npy"), 1, ["ulimit -f", "w.npy"]),
        (MemoryError("Unable to allocate"), 1, ["MemoryError", "allocate", "smaller chunks"]),
        (
            KilledWorker("determine", SimpleNamespace(address="tcp://a"), 3),
            1,
            ["KilledWorker", "smaller chunks"],
        ),
        (ZeroDivisionError("by\nzero"), 1, ["ZeroDivisionError", "by zero"]),
        (KeyboardInterrupt(), 130, ["interrupted", "w.npy was not written"]),
        (failure.BadInput("no such axis"), 2, ["no such axis"]),
        (FileNotFoundError("/far/x.npy"), 1, ["/far/x.npy", "every worker sees"]),
    ],
)
def test_an_error_becomes_a_line(error, code, words):
    with pytest.raises(click.ClickException) as caught, failure.in_one_line("w.npy was not written"):
        raise error
    assert caught.value.exit_code == code
    assert "\n" not in caught.value.message
    assert all(word in caught.value.message for word in words)


SIGNALS = [
    (signal.SIGINT, 130, "interrupted"),
    (signal.SIGTERM, 143, "terminated"),
    (signal.SIGHUP, 129, "hung up"),
]


@pytest.mark.parametrize(("number", "code", "word"), SIGNALS)
def test_a_signal_becomes_a_line(number, code, word):
    before = signal.getsignal(number)
    with pytest.raises(failure.Failure) as caught, failure.in_one_line("w.npy is not there"):
        signal.raise_signal(number)
    assert caught.value.exit_code == code
    assert caught.value.message == f"{word}: w.npy is not there"
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(("number", "code", "word"), SIGNALS)
def test_a_signal_while_imports_run_becomes_a_line(tmp_path, number, code, word):
    slow = "import time\nprint('importing', flush=True)\ntime.sleep(900)\n"
    (tmp_path / "click.py").write_text(slow)
    places = [str(tmp_path), str(Path(mgrec.__file__).parents[1])]
    running = subprocess.Popen(
        [sys.executable, "-m", "mgrec"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout.readline() == "importing\n"
    running.send_signal(number)
    _, errors = running.communicate()
    assert (running.returncode, errors) == (code, f"Error: {word}\n")


def test_a_closed_pipe_ends_quietly(capsys, monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        with pytest.raises(failure.Failure) as caught, failure.in_one_line("not complete"):
            file.write("a line")
    caught.value.show()
    assert caught.value.exit_code == 141
    assert capsys.readouterr() == ("", "")


def test_a_closed_pipe_without_a_buffer_ends_quietly(monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    raw = os.fdopen(writer, "wb", buffering=0)
    with io.TextIOWrapper(raw, write_through=True) as file:
        monkeypatch.setattr(sys, "stdout", file)
        with pytest.raises(failure.Failure) as caught, failure.in_one_line("not complete"):
            file.write("a line")
    assert (caught.value.exit_code, caught.value.message) == (141, "")


def test_standard_output_may_be_closed(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    with failure.in_one_line("nothing"):
        pass
    with pytest.raises(failure.Failure, match="BrokenPipeError"), failure.in_one_line("nothing"):
        raise BrokenPipeError


def test_another_broken_pipe_is_told():
    with pytest.raises(failure.Failure, match="BrokenPipeError"), failure.in_one_line("nothing"):
        raise BrokenPipeError


def test_messages_name_the_options_of_the_command():
    with click.Context(solve.tridiagonal):
        error = failure.Failure("with check_finite=False x is nan; a=False")
    assert error.message == "with --no-check-finite x is nan; a=False"
    with click.Context(solve.tridiagonal):
        error = failure.Failure("rhs_axis must be 1; rhs_axis.npy, a/rhs_axis and axis. rhs_axis.")
    expected = "--rhs-axis must be 1; rhs_axis.npy, a/rhs_axis and axis. --rhs-axis."
    assert error.message == expected


INTERRUPTED = """
import signal, sys, types
from mgrec import __main__

def command(prog_name):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        exec("signal.raise_signal(signal.SIGINT)")
    except KeyboardInterrupt:
        sys.exit(130)

sys.modules["mgrec.cli.command"] = types.SimpleNamespace(main=command)
__main__.main()
"""


def test_an_interrupt_in_an_exec_leaves_the_exit_code(tmp_path):
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    ended = subprocess.run([sys.executable, "-m", "interrupted"], cwd=tmp_path, stderr=subprocess.PIPE)
    assert ended.returncode == 130


def test_what_fails_after_a_signal_is_no_news():
    with pytest.raises(failure.Failure) as caught, failure.in_one_line("w.npy is not there"):
        try:
            signal.raise_signal(signal.SIGHUP)
        except KeyboardInterrupt:
            raise OSError(errno.EIO, "the terminal is gone") from None
    assert caught.value.exit_code == 129


def test_a_hangup_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup leaves it
    try:
        with failure.in_one_line("nothing"):
            signal.raise_signal(signal.SIGHUP)
            signals.check()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_second_signal_does_not_stop_cleaning_up(number):
    cleaned = []
    with pytest.raises(failure.Failure), failure.in_one_line("nothing"):
        try:
            signal.raise_signal(number)
        finally:
            signal.raise_signal(number)
            cleaned.append(True)
    assert cleaned


def test_a_signal_that_is_held_back_is_remembered():
    with pytest.raises(failure.Failure), failure.in_one_line("nothing"):
        with signals.deferred():
            signal.raise_signal(signal.SIGINT)
        signals.check()


@pytest.mark.parametrize("is_known", [True, False])
def test_ctrl_c_inside_a_callback_of_the_garbage_collector_is_not_lost(monkeypatch, is_known):
    def other(phase, information):
        signal.raise_signal(signal.SIGINT)

    def _gc_callback(phase, information):  # as distributed's is called
        signal.raise_signal(signal.SIGINT)

    press = _gc_callback if is_known else other
    before, lost = signal.getsignal(signal.SIGINT), []
    monkeypatch.setattr("sys.unraisablehook", lost.append)
    with pytest.raises(failure.Failure), failure.in_one_line("w.npy was not written"):
        gc.callbacks.append(press)
        try:
            gc.collect()
        finally:
            gc.callbacks.remove(press)
        signals.check()
        pytest.fail("the interrupt was lost")
    assert bool(lost) is not is_known
    assert signal.getsignal(signal.SIGINT) is before
    with failure.in_one_line("nothing"):
        signals.check()
