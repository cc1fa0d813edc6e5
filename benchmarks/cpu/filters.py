"""Filters over NumPy arrays against SciPy's, and the bars of the CPU.

*into out* is the public function with ``out=``, which writes into a result that exists; *call*
allocates its result, as SciPy's functions do and ``t.copy()``, which tells what that costs.
*two halves at once* are two calls on a thread each, over one half each: what a second thread can
bring on this machine, in the same run.
Everything runs on one thread where no number is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from scipy import signal

from mgrec.signal import lfilter, sosfilt

from ..harness.clock import Call
from ..harness.command import Command
from ..harness.study import Study
from .candidates import about, calls, threads

LONG = 10**7
# Bars: how many times as fast as SciPy a filter must be on one thread, by order or sections. From
# THREADED states on two threads must be 1.7 times as fast as one.
ORDERS, SECTIONS, THREADED = {1: 6, 2: 5, 4: 0, 8: 3}, {1: 0, 2: 0, 4: 0, 8: 3}, 4


def halves(own: Any, *arguments: Any) -> Call:
    """One call for each half of x, both at once, into a result that exists."""
    *coefficients, x = arguments
    middle, out, other = x.size // 2, np.empty_like(x), ThreadPoolExecutor(1)

    def at_once() -> None:
        second = other.submit(own, *coefficients, x[middle:], out=out[middle:])
        own(*coefficients, x[:middle], out=out[:middle])
        second.result()

    return threads(1, at_once)


def agree(candidates: Mapping[str, Call], wanted: np.ndarray) -> None:
    """What is timed is also right; SciPy's own errors are 1e-4 at order 8 in float32."""
    size, tolerance = np.abs(wanted).max(), 1e-9 if wanted.itemsize == 8 else 1e-3
    for name, call in candidates.items():
        np.testing.assert_allclose(call() / size, wanted / size, 0, tolerance, err_msg=name)


def compare(
    study: Study,
    case: str,
    own: Any,
    scipys: Any,
    arguments: tuple[Any, ...],
    states: int,
    wanted: float,
    n: int,
) -> None:
    x = arguments[-1]
    result, out = np.empty_like(x), np.empty_like(x)
    public = calls("mgrec into out", own, *arguments, out=out) | calls("mgrec call", own, *arguments)
    agree(public, scipys(*arguments))
    is_threaded = states >= THREADED
    candidates = {
        "np.copyto": lambda: np.copyto(result, x),
        "t.copy()": x.copy,
        **public,
        **({"mgrec two halves at once": halves(own, *arguments)} if is_threaded else {}),
        "scipy": lambda: scipys(*arguments),
    }
    times = study.compare(case, candidates, n, **about(x, 2))
    one, two = times["mgrec into out"], times["mgrec into out, 2 threads"]
    if wanted:
        study.ratio(f"{case}: into out, over scipy", times["scipy"], one, wanted)
    study.note(f"{case}: call, over scipy", times["scipy"], times["mgrec call"])
    if is_threaded:
        most = times["mgrec two halves at once"]
        study.ratio(f"{case}: two threads over one, into out", one, two, 1.7)
        study.note(f"{case}: two halves at once, over one thread", one, most)
        study.note(f"{case}: two threads, of two halves at once", most, two)


def signal_of(dtype: Any) -> np.ndarray:
    return np.random.default_rng(7).normal(size=LONG).astype(dtype)


def orders(study: Study, n: int, dtype: str) -> None:
    x = signal_of(dtype)
    for order, wanted in ORDERS.items():
        b, a = (part.astype(dtype) for part in signal.butter(order, 0.2))
        case = f"lfilter, order {order}, {dtype}, 10^7"
        compare(study, case, lfilter, signal.lfilter, (b, a, x), order, wanted, n)


def sections(study: Study, n: int, dtype: str) -> None:
    x = signal_of(dtype)
    for count, wanted in SECTIONS.items():
        sos = signal.butter(2 * count, 0.2, output="sos").astype(dtype)
        case = f"sosfilt, {count} section{'s' * (count > 1)}, {dtype}, 10^7"
        compare(study, case, sosfilt, signal.sosfilt, (sos, x), 2 * count, wanted, n)


PARTS = {
    "orders": partial(orders, dtype="float64"),
    "orders32": partial(orders, dtype="float32"),
    "sections": partial(sections, dtype="float64"),
    "sections32": partial(sections, dtype="float32"),
}

if __name__ == "__main__":
    Command("filters", __doc__, PARTS, (15, 3)).main()
