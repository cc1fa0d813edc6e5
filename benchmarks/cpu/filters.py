"""Filters over NumPy arrays against SciPy's, and the bars of the CPU.

*into out* is the public function with ``out=``, which writes into a result that exists; *call*
allocates its result, as SciPy's functions do and ``t.copy()``, which tells what that costs.
*two halves at once* are two calls on a thread each, over one half each: what a second thread can
bring on this machine, in the same run.
Everything runs on one thread where no number is said.

usage: python -m benchmarks.cpu.filters [GROUP ...] [--quick] [--out FOLDER] [--plot RESULT]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from scipy import signal

from mgrec.signal import lfilter, sosfilt

from ..harness.command import run
from ..harness.study import Study
from .candidates import Call, threads
from .recurrences import calls, draw, note

LONG = 10**7
# Bars: how many times as fast as SciPy a filter must be on one thread, by order. From THREADED
# states on two threads must be 1.7 times as fast as one.
WANTED = {1: 6, 2: 5, 4: 0, 8: 3}
THREADED = 4


def into_out(mine: Any, *arguments: Any) -> dict[str, Call]:
    """The public call on one thread and on two, into a result that exists."""
    out = np.empty_like(arguments[-1])
    return {
        "mgrec into out": threads(1, mine, *arguments, out=out),
        "mgrec into out, 2 threads": threads(2, mine, *arguments, out=out),
    }


def halves(mine: Any, *arguments: Any) -> Call:
    """One call for each half of x, both at once, into a result that exists."""
    *coefficients, x = arguments
    middle, out, other = x.size // 2, np.empty_like(x), ThreadPoolExecutor(1)

    def at_once() -> None:
        second = other.submit(mine, *coefficients, x[middle:], out=out[middle:])
        mine(*coefficients, x[:middle], out=out[:middle])
        second.result()

    return threads(1, at_once)


def agree(candidates: dict[str, Call], wanted: np.ndarray) -> None:
    """What is timed is also right; SciPy's own errors are 1e-4 at order 8 in float32."""
    size, tolerance = np.abs(wanted).max(), 1e-9 if wanted.itemsize == 8 else 1e-3
    for name, call in candidates.items():
        np.testing.assert_allclose(call() / size, wanted / size, 0, tolerance, err_msg=name)


def compare(
    study: Study, case: str, mine: Any, scipys: Any, arguments: tuple[Any, ...], states: int,
    wanted: float, repetitions: int,
) -> None:  # fmt: skip
    x = arguments[-1]
    public = into_out(mine, *arguments) | calls(mine, *arguments)
    agree(public, scipys(*arguments))
    is_threaded = states >= THREADED
    ceiling = {"mgrec two halves at once": halves(mine, *arguments)} if is_threaded else {}
    result = np.empty_like(x)
    times = study.compare(
        case,
        {
            "np.copyto": lambda: np.copyto(result, x),
            "t.copy()": x.copy,
            **public,
            **ceiling,
            "scipy": lambda: scipys(*arguments),
        },
        repetitions,
        dtype=str(x.dtype),
        shape=[x.size],
        steps=x.size,
        bytes=2 * x.nbytes,
    )
    one, two = times["mgrec into out"], times["mgrec into out, 2 threads"]
    if wanted:
        study.ratio(f"{case}: into out, over scipy", times["scipy"], one, wanted)
    note(study, f"{case}: call, over scipy", times["scipy"], times["mgrec call"])
    if is_threaded:
        most = times["mgrec two halves at once"]
        study.ratio(f"{case}: two threads over one, into out", one, two, 1.7)
        note(study, f"{case}: two halves at once, over one thread", one, most)
        note(study, f"{case}: two threads, of two halves at once", most, two)


def signal_of(dtype: Any) -> np.ndarray:
    return np.random.default_rng(7).normal(size=LONG).astype(dtype)


def orders(study: Study, dtype: str, repetitions: int) -> None:
    x = signal_of(dtype)
    for order, wanted in WANTED.items():
        b, a = (part.astype(dtype) for part in signal.butter(order, 0.2))
        case = f"lfilter, order {order}, {dtype}, 10^7"
        compare(study, case, lfilter, signal.lfilter, (b, a, x), order, wanted, repetitions)


def sections(study: Study, dtype: str, repetitions: int) -> None:
    x = signal_of(dtype)
    for count, wanted in {1: 0, 2: 0, 4: 0, 8: 3}.items():
        sos = signal.butter(2 * count, 0.2, output="sos").astype(dtype)
        case = f"sosfilt, {count} section{'s' * (count > 1)}, {dtype}, 10^7"
        compare(study, case, sosfilt, signal.sosfilt, (sos, x), 2 * count, wanted, repetitions)


GROUPS: dict[str, Callable[[Study, int], None]] = {
    "orders": lambda study, n: orders(study, "float64", n),
    "orders32": lambda study, n: orders(study, "float32", n),
    "sections": lambda study, n: sections(study, "float64", n),
    "sections32": lambda study, n: sections(study, "float32", n),
}


def measure(study: Study, arguments: argparse.Namespace) -> None:
    for group in arguments.groups or GROUPS:
        GROUPS[group](study, 3 if arguments.quick else 15)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--quick", action="store_true", help="3 repetitions, to see that it works")
    run("filters", measure, draw, parser)
