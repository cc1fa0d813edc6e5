"""Recurrences over NumPy arrays against their peers, and the bars of the CPU backend.

*kernel* is a determination without the door, *into out* the public function with ``out=``: both
write into a result that exists, as np.copyto and the plain loops beside them do. *call*
allocates its result, as ``t.copy()`` and lfilter do. Everything runs on one thread where no
number is said. jax takes as many threads as it likes, and is left out where it is not installed.

usage: python -m benchmarks.cpu.recurrences [GROUP ...] [--quick] [--out FOLDER] [--plot RESULT]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import mgrec

from ..harness.clock import Times
from ..harness.command import run
from ..harness.papers import light, operations
from ..harness.study import Study
from . import peers
from .candidates import Call, calls, into_out, kernel, summary

LONG, S = 10**7, 0.9


def agree(candidates: dict[str, Call], wanted: np.ndarray, tolerance: float = 1e-9) -> None:
    """What is timed is also right."""
    for name, call in candidates.items():
        np.testing.assert_allclose(np.asarray(call()), wanted, tolerance, tolerance, err_msg=name)


def note(study: Study, text: str, over: Times, under: Times) -> None:
    """Keep a ratio of medians that no bar is set for."""
    study.notes[text] = over.median / under.median
    print(f"  {text}: {study.notes[text]:.3g}", flush=True)


def draw_operands(shape: Any, dtype: Any = np.float64) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    return tuple(rng.uniform(-1, 1, shape).astype(dtype) for _ in range(2))


def constant(study: Study, dtype: type, repetitions: int) -> None:
    t = draw_operands(LONG, dtype)[1]
    result, s, name = np.empty_like(t), dtype(S), np.dtype(dtype).name
    wanted = peers.loop_constant(s, t, np.empty_like(t))
    public = calls(mgrec.linear_recurrence, S, t)
    others = {
        "numba loop": lambda: peers.loop_constant(s, t, np.empty_like(t)),
        "scipy lfilter": lambda: peers.filter_constant(S, t),
    }
    agree(public | others, wanted, 1e-9 if dtype is np.float64 else 1e-4)
    if dtype is np.float64:
        others["pandas ewm"] = lambda: peers.weigh_constant(S, t)
        # pandas starts from the first value and weighs each by 1 - s.
        agree({"pandas ewm": lambda: peers.weigh_constant(S, t)[999:]}, wanted[999:] * (1 - S))
    about = {"dtype": name, "shape": [LONG], "steps": LONG}
    inner = study.compare(
        f"constant s, {name}, 10^7",
        {
            "np.copyto": lambda: np.copyto(result, t),
            "mgrec into out": into_out(S, t),
            "numba loop, into out": lambda: peers.loop_constant(s, t, result),
        },
        3 * repetitions,
        bytes=2 * t.nbytes,
        **about,
    )
    outer = study.compare(
        f"constant s, {name}, 10^7, allocating",
        {"t.copy()": t.copy, **public, **others},
        repetitions,
        bytes=2 * t.nbytes,
        **about,
    )
    bar = f"constant s, {name}, 10^7:"
    study.notes[f"copy bandwidth, {name}, GB/s"] = 2 * t.nbytes / inner["np.copyto"].median / 1e9
    study.ratio(f"{bar} into out, of np.copyto", inner["np.copyto"], inner["mgrec into out"], 0.9)
    study.ratio(f"{bar} into out, over lfilter", outer["scipy lfilter"], inner["mgrec into out"], 8)
    # Fresh memory costs as much as the recurrence: the bar of a call that allocates.
    for name in ("t.copy()", "scipy lfilter", "numba loop"):
        note(study, f"{bar} call, over {name}", outer[name], outer["mgrec call"])


def arrays(study: Study, steps: int, least: float, repetitions: int) -> None:
    s, t = draw_operands(steps)
    result = np.empty_like(t)
    public = calls(mgrec.linear_recurrence, s, t)
    others = {
        "numba loop": lambda: peers.loop_arrays(s, t, np.empty_like(t)),
        **peers.jax_scans(s, t),
    }
    agree(public | others, peers.loop_arrays(s, t, np.empty_like(t)))
    case = f"arrays, float64, 10^{len(str(steps)) - 1}"
    about = {"dtype": "float64", "shape": [steps], "steps": steps, "bytes": 3 * t.nbytes}
    inner = study.compare(
        case,
        {
            "mgrec kernel": kernel(s, t),
            "mgrec into out": into_out(s, t),
            "numba loop, into out": lambda: peers.loop_arrays(s, t, result),
        },
        3 * repetitions,
        **about,
    )
    outer = study.compare(f"{case}, allocating", public | others, repetitions, **about)
    loops = inner["numba loop, into out"], outer["numba loop"]
    study.ratio(f"{case}: kernel, over numba loop", loops[0], inner["mgrec kernel"], least)
    note(study, f"{case}: into out, over numba loop", loops[0], inner["mgrec into out"])
    note(study, f"{case}: call, over numba loop that allocates", loops[1], outer["mgrec call"])


def axes(study: Study, repetitions: int) -> None:
    """Rows along the slow axis, and as many of the same length along the fast one."""
    for width in (16, 1000, 100_000):
        s, t = draw_operands((LONG // width, width))
        for kind, slow, fast in (("arrays", s, np.ascontiguousarray(s.T)), ("constant s", S, S)):
            case = f"{width} rows, {kind}"
            times = study.compare(
                case,
                {
                    "mgrec slow axis": into_out(slow, t, 0),
                    "mgrec fast axis": into_out(fast, np.ascontiguousarray(t.T), 1),
                },
                repetitions,
                shape=list(t.shape),
                dtype="float64",
                steps=t.size,
            )
            study.ratio(
                f"{case}: slow axis, of fast", times["mgrec fast axis"], times["mgrec slow axis"], 1
            )


def short_rows(study: Study, repetitions: int) -> None:
    s, t = draw_operands((10**6, 10))
    public = calls(mgrec.linear_recurrence, s, t)
    others = {"numba loop": lambda: peers.loop_rows(s, t, np.empty_like(t))}
    agree(public, others["numba loop"]())
    about = {"dtype": "float64", "shape": [10**6, 10], "steps": t.size}
    study.compare("10^6 rows of 10", public | others, repetitions, **about)
    constant = calls(mgrec.linear_recurrence, S, t)
    constant["scipy lfilter"] = lambda: peers.filter_constant(S, t)
    agree(constant, constant["scipy lfilter"]())
    study.compare("10^6 rows of 10, constant s", constant, repetitions, **about)


def single_calls(study: Study, repetitions: int) -> None:
    s, t = draw_operands(10)
    about = {"dtype": "float64", "shape": [10]}
    times = study.compare(
        "one call of 10 steps",
        {
            "mgrec call, arrays": lambda: mgrec.linear_recurrence(s, t),
            "mgrec call, constant s": lambda: mgrec.linear_recurrence(S, t),
            "scipy lfilter": lambda: peers.filter_constant(S, t),
            "numba loop": lambda: peers.loop_arrays(s, t, np.empty_like(t)),
        },
        3 * repetitions,
        **about,
    )
    for kind in ("arrays", "constant s"):
        each = times[f"mgrec call, {kind}"]
        text = f"one call of 10 steps, {kind}: microseconds"
        study.bar(text, each.median * 1e6, each.best * 1e6, 50, is_least=False)


def phases(study: Study, repetitions: int) -> None:
    s, t = draw_operands(LONG)
    about = {"dtype": "float64", "shape": [LONG], "steps": LONG}
    for kind, coefficient in (("arrays", s), ("constant s", S)):
        both = {"mgrec precompute": summary(coefficient, t)}
        both["mgrec determine"] = into_out(coefficient, t)
        study.compare(f"phases, {kind}, 10^7", both, repetitions, **about)


def coefficients(study: Study, repetitions: int) -> None:
    cases = ("L", light, 10**6), ("M", operations(200), 10**5), ("H", operations(500), 10**5)
    for name, function, steps in cases:
        t = draw_operands(steps)[1]
        loop = peers.loop_computed(function)
        public = calls(mgrec.linear_recurrence, mgrec.Coefficient(function), t)
        others = {"numba loop": partial(loop, t, np.empty_like(t))}
        agree(public, others["numba loop"]())
        about = {"dtype": "float64", "shape": [steps], "steps": steps}
        study.compare(f"Coefficient {name}", public | others, repetitions, **about)


def other_maps(study: Study, repetitions: int) -> None:
    a, b, c, d = np.random.default_rng(7).uniform(0.5, 1, (4, 10**6))
    s = a - 0.8
    cases = {
        "Möbius, 10^6": (
            calls(mgrec.rational_recurrence, a, b, c, d, 1.0),
            lambda: peers.loop_mobius(a, b, c, d, 1.0, np.empty_like(a)),
        ),
        "max_plus, 10^6": (
            calls(mgrec.scan, mgrec.maps.max_plus, s, 0.0, initial=0.0),
            lambda: peers.loop_max_plus(s, 0.0, 0.0, np.empty_like(s)),
        ),
    }
    for case, (public, loop) in cases.items():
        agree(public, loop())
        about = {"dtype": "float64", "shape": [10**6], "steps": 10**6}
        study.compare(case, {**public, "numba loop": loop}, repetitions, **about)


def prefix_sums(study: Study, repetitions: int) -> None:
    t = draw_operands(LONG)[1]
    public, others = calls(mgrec.linear_recurrence, 1.0, t), {"np.cumsum": lambda: np.cumsum(t)}
    agree(public, np.cumsum(t), 1e-7)
    about = {"dtype": "float64", "shape": [LONG], "steps": LONG}
    study.compare("s = 1, 10^7", public | others, repetitions, **about)


GROUPS: dict[str, Callable[[Study, int], None]] = {
    "float64": lambda study, n: constant(study, np.float64, n),
    "float32": lambda study, n: constant(study, np.float32, n),
    "long": lambda study, n: arrays(study, LONG, 2, n),
    "cached": lambda study, n: arrays(study, 10**5, 3.5, n),
    "axes": axes,
    "short-rows": short_rows,
    "single-calls": single_calls,
    "phases": phases,
    "coefficients": coefficients,
    "maps": other_maps,
    "sums": prefix_sums,
}


def measure(study: Study, arguments: argparse.Namespace) -> None:
    for group in arguments.groups or GROUPS:
        GROUPS[group](study, 3 if arguments.quick else 25)


def draw(record: dict[str, Any]) -> Any:
    """Nanoseconds a step of every candidate, case by case."""
    from matplotlib.figure import Figure

    rows = [row for row in record["cases"] if "steps" in row][::-1]
    figure = Figure(figsize=(9, 1 + 0.17 * len(rows)), layout="constrained")
    axes = figure.subplots()
    colours = ["C0" if row["candidate"].startswith("mgrec") else "0.7" for row in rows]
    names = [f"{row['case']}: {row['candidate']}" for row in rows]
    times = [row["median"] / row["steps"] * 1e9 for row in rows]
    axes.barh(range(len(rows)), times, color=colours)
    axes.set_yticks(range(len(rows)), names, fontsize=6)
    axes.set(xscale="log", xlabel="nanoseconds a step (median)", ylim=(-0.6, len(rows) - 0.4))
    axes.set_title(f"{record['machine']['processor']}, {record['date'][:10]}")
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--quick", action="store_true", help="3 repetitions, to see that it works")
    run("cpu", measure, draw, parser)
