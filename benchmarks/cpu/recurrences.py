"""Recurrences over NumPy arrays against their peers, and the bars of the CPU backend.

*kernel* is a determination without validation, *into out* the public function with ``out=``: both
write into a result that exists, as np.copyto and the plain loops beside them do. *call*
allocates its result, as ``t.copy()`` and lfilter do. Everything runs on one thread where no
number is said. jax takes as many threads as it likes, and is left out where it is not installed.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import mgrec

from ..harness.command import Command
from ..harness.study import Study
from ..papers.loops import light, operations
from . import peers
from .candidates import about, agree, calls, into_out, kernel, summary

LONG, S = 10**7, 0.9
CALL = "mgrec call"


def draw_operands(shape: Any, dtype: Any = np.float64) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    return tuple(rng.uniform(-1, 1, shape).astype(dtype) for _ in range(2))


def constant(study: Study, dtype: type, n: int) -> None:
    t = draw_operands(LONG, dtype)[1]
    result, s, name = np.empty_like(t), dtype(S), np.dtype(dtype).name
    wanted = peers.loop_constant(s, t, np.empty_like(t))
    public = calls(CALL, mgrec.linear_recurrence, S, t)
    others = {
        "numba loop": lambda: peers.loop_constant(s, t, np.empty_like(t)),
        "scipy lfilter": lambda: peers.filter_constant(S, t),
    }
    agree(public | others, wanted, 1e-9 if dtype is np.float64 else 1e-4)
    if dtype is np.float64:
        others["pandas ewm"] = lambda: peers.weigh_constant(S, t)
        # pandas starts from the first value and weighs each by 1 - s.
        agree({"pandas ewm": lambda: peers.weigh_constant(S, t)[999:]}, wanted[999:] * (1 - S))
    inner_calls = {
        "np.copyto": lambda: np.copyto(result, t),
        "mgrec into out": into_out(S, t),
        "numba loop, into out": lambda: peers.loop_constant(s, t, result),
    }
    outer_calls, bar = {"t.copy()": t.copy, **public, **others}, f"constant s, {name}, 10^7"
    inner = study.compare(bar, inner_calls, 3 * n, **about(t, 2))
    outer = study.compare(f"{bar}, allocating", outer_calls, n, **about(t, 2))
    study.notes[f"copy bandwidth, {name}, GB/s"] = 2 * t.nbytes / inner["np.copyto"].median / 1e9
    into = inner["mgrec into out"]
    study.ratio(f"{bar}: into out, of np.copyto", inner["np.copyto"], into, 0.9)
    study.ratio(f"{bar}: into out, over lfilter", outer["scipy lfilter"], into, 8)
    # Fresh memory costs as much as the recurrence: the bar of a call that allocates.
    for name in ("t.copy()", "scipy lfilter", "numba loop"):
        study.note(f"{bar}: call, over {name}", outer[name], outer[CALL])


def arrays(study: Study, steps: int, least: float, n: int) -> None:
    s, t = draw_operands(steps)
    result, case = np.empty_like(t), f"arrays, float64, 10^{len(str(steps)) - 1}"
    loop = partial(peers.loop_arrays, s, t)
    outer_calls = {
        **calls(CALL, mgrec.linear_recurrence, s, t),
        "numba loop": lambda: loop(np.empty_like(t)),
        **peers.jax_scans(s, t),
    }
    agree(outer_calls, loop(np.empty_like(t)))
    inner_calls = {
        "mgrec kernel": kernel(s, t),
        "mgrec into out": into_out(s, t),
        "numba loop, into out": lambda: loop(result),
    }
    inner = study.compare(case, inner_calls, 3 * n, **about(t, 3))
    outer = study.compare(f"{case}, allocating", outer_calls, n, **about(t, 3))
    plain = inner["numba loop, into out"]
    study.ratio(f"{case}: kernel, over numba loop", plain, inner["mgrec kernel"], least)
    study.note(f"{case}: into out, over numba loop", plain, inner["mgrec into out"])
    study.note(f"{case}: call, over numba loop that allocates", outer["numba loop"], outer[CALL])


def axes(study: Study, n: int) -> None:
    """Rows along the slow axis, and as many of the same length along the fast one."""
    for width in (16, 1000, 100_000):
        s, t = draw_operands((LONG // width, width))
        for kind, slow, fast in (("arrays", s, np.ascontiguousarray(s.T)), ("constant s", S, S)):
            case = f"{width} rows, {kind}"
            both = {
                "mgrec slow axis": into_out(slow, t, 0),
                "mgrec fast axis": into_out(fast, np.ascontiguousarray(t.T), 1),
            }
            across, along = study.compare(case, both, n, **about(t)).values()
            study.ratio(f"{case}: slow axis, of fast", along, across, 1)


def short_rows(study: Study, n: int) -> None:
    s, t = draw_operands((10**6, 10))
    loop, lfilter = (
        {"numba loop": lambda: peers.loop_rows(s, t, np.empty_like(t))},
        {"scipy lfilter": lambda: peers.filter_constant(S, t)},
    )
    for case, factor, peer in (("", s, loop), (", constant s", S, lfilter)):
        public = calls(CALL, mgrec.linear_recurrence, factor, t)
        study.hold(f"10^6 rows of 10{case}", public, peer, n, agree, **about(t))


def single_calls(study: Study, n: int) -> None:
    s, t = draw_operands(10)
    candidates = {
        "mgrec call, arrays": lambda: mgrec.linear_recurrence(s, t),
        "mgrec call, constant s": lambda: mgrec.linear_recurrence(S, t),
        "scipy lfilter": lambda: peers.filter_constant(S, t),
        "numba loop": lambda: peers.loop_arrays(s, t, np.empty_like(t)),
    }
    size = {"dtype": "float64", "shape": [10]}
    times = study.compare("one call of 10 steps", candidates, 3 * n, **size)
    for kind in ("arrays", "constant s"):
        each = times[f"mgrec call, {kind}"]
        text = f"one call of 10 steps, {kind}: microseconds"
        study.bar(text, each.median * 1e6, each.best * 1e6, 50, is_least=False)


def phases(study: Study, n: int) -> None:
    s, t = draw_operands(LONG)
    for kind, factor in (("arrays", s), ("constant s", S)):
        both = {"mgrec precompute": summary(factor, t), "mgrec determine": into_out(factor, t)}
        study.compare(f"phases, {kind}, 10^7", both, n, **about(t))


def coefficients(study: Study, n: int) -> None:
    cases = ("L", light, 10**6), ("M", operations(200), 10**5), ("H", operations(500), 10**5)
    for name, function, steps in cases:
        t = draw_operands(steps)[1]
        public = calls(CALL, mgrec.linear_recurrence, mgrec.Coefficient(function), t)
        loop = {"numba loop": partial(peers.loop_computed(function), t, np.empty_like(t))}
        study.hold(f"Coefficient {name}", public, loop, n, agree, **about(t))


def other_maps(study: Study, n: int) -> None:
    a, b, c, d = np.random.default_rng(7).uniform(0.5, 1, (4, 10**6))
    s, w = a - 0.8, np.empty(10**6)
    public = calls(CALL, mgrec.rational_recurrence, a, b, c, d, 1.0)
    loop = {"numba loop": lambda: peers.loop_mobius(a, b, c, d, 1.0, np.empty_like(w))}
    study.hold("Möbius, 10^6", public, loop, n, agree, **about(a))
    public = calls(CALL, mgrec.scan, mgrec.maps.max_plus, s, 0.0, initial=0.0)
    loop = {"numba loop": lambda: peers.loop_max_plus(s, 0.0, 0.0, np.empty_like(w))}
    study.hold("max_plus, 10^6", public, loop, n, agree, **about(s))


def prefix_sums(study: Study, n: int) -> None:
    t = draw_operands(LONG)[1]
    public = calls(CALL, mgrec.linear_recurrence, 1.0, t)
    check = partial(agree, tolerance=1e-7)
    study.hold("s = 1, 10^7", public, {"np.cumsum": lambda: np.cumsum(t)}, n, check, **about(t))


PARTS = {
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

if __name__ == "__main__":
    Command("cpu", __doc__, PARTS, (25, 3)).main()
