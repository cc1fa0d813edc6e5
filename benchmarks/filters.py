"""Filters over NumPy arrays against SciPy's, and the bars of the CPU.

*kernel* writes into a result that exists; *call* is the public function, which allocates its
result as SciPy's does. Everything runs on one thread where no number is said.

usage: python benchmarks/filters.py [GROUP ...] [--quick] [--out FOLDER] [--plot RESULT]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from cpu import calls, draw
from record import Study, run
from scipy import signal

from mgrec.backends.cpu.filters import determine_filter
from mgrec.phases.cascade import Cascade
from mgrec.phases.chunk import Chunk
from mgrec.signal import lfilter, sosfilt

LONG = 10**7
# Times SciPy's that a call is to take on one thread, by the order.
WANTED = {1: 6, 2: 5, 4: 0, 8: 3}


def kernel(cascade: Cascade, x: np.ndarray) -> Callable[[], Any]:
    """One chunk into a result that exists."""
    shape = (1, x.size, 1)
    chunk, result = Chunk((x.reshape(shape),), shape, x.dtype), np.empty(shape, x.dtype)
    entry = np.zeros((cascade.states, 1, 1))
    return lambda: determine_filter(cascade, chunk, entry, result)


def compare(
    study: Study, case: str, mine: Any, scipys: Any, arguments: tuple[Any, ...], cascade: Cascade,
    wanted: float, repetitions: int,
) -> None:  # fmt: skip
    x = arguments[-1]
    public = calls(mine, *arguments)
    expected = scipys(*arguments)
    for name, call in public.items():
        size = np.abs(expected).max()
        np.testing.assert_allclose(call() / size, expected / size, atol=1e-5, err_msg=name)
    times = study.compare(
        case,
        {
            "t.copy()": x.copy,
            "mgrec kernel": kernel(cascade, x),
            **public,
            "scipy": lambda: scipys(*arguments),
        },
        repetitions,
        dtype=str(x.dtype),
        shape=[x.size],
        steps=x.size,
        bytes=2 * x.nbytes,
    )
    if wanted:
        study.ratio(f"{case}: call over scipy", times["scipy"], times["mgrec call"], wanted)
        study.ratio(f"{case}: kernel over scipy", times["scipy"], times["mgrec kernel"], wanted)
    if cascade.states >= 4:
        both = times["mgrec call"], times["mgrec call, 2 threads"]
        study.ratio(f"{case}: two threads over one", *both, 1.7)


def signal_of(dtype: Any) -> np.ndarray:
    return np.random.default_rng(7).normal(size=LONG).astype(dtype)


def orders(study: Study, dtype: str, repetitions: int) -> None:
    x = signal_of(dtype)
    for order, wanted in WANTED.items():
        b, a = (part.astype(dtype) for part in signal.butter(order, 0.2))
        arguments, cascade = (b, a, x), Cascade.of_polynomials(b, a)
        case = f"lfilter, order {order}, {dtype}, 10^7"
        compare(study, case, lfilter, signal.lfilter, arguments, cascade, wanted, repetitions)


def sections(study: Study, dtype: str, repetitions: int) -> None:
    x = signal_of(dtype)
    for count, wanted in {1: 0, 2: 0, 4: 0, 8: 3}.items():
        sos = signal.butter(2 * count, 0.2, output="sos").astype(dtype)
        case = f"sosfilt, {count} section{'s' * (count > 1)}, {dtype}, 10^7"
        cascade = Cascade.of_sections(sos)
        compare(study, case, sosfilt, signal.sosfilt, (sos, x), cascade, wanted, repetitions)


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
