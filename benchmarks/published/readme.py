"""The table of numbers in the README and on the first page of the documentation."""

from __future__ import annotations

import re
from pathlib import Path

from .rows import newest

PATH = Path(__file__).parents[2] / "README.md"
CALLS, PEERS, QUEUED = "cuda-calls-h200", "cuda-peers-h200", "queued-h200-2"
GPU_FILTERS, FILTERS, EWM = "cuda-filters-h200", "filters-xeon-2", "ewm-xeon-2"
SYSTEMS, STATES = "tridiagonal-xeon-2", "states-xeon-2"
STUDIES = CALLS, PEERS, QUEUED, GPU_FILTERS, FILTERS, EWM, SYSTEMS, STATES
"""The studies whose results are read."""
_BLOCK = re.compile(r"(<!-- numbers.*?-->\n).*?(<!-- end of numbers -->)", re.DOTALL)


def filled(text: str) -> str:
    """Return the text of a README with the numbers of the newest results."""
    return _BLOCK.sub(lambda block: f"{block[1]}\n{numbers()}\n{block[2]}", text)


def numbers() -> str:
    """Return a table of calls, one line each, as Markdown."""
    rows = [("call", "runs on", "speed"), ("---",) * 3, *_on_cpus(), *_on_gpus()]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _on_cpus() -> list[tuple[str, str, str]]:
    threads, case = "mgrec call, 2 threads", "one of 10,000,000, float64, random"
    scipy = _times(FILTERS, "lfilter, order 2, float64, 10^7", "scipy", threads)
    lapack = _times(SYSTEMS, case, "LAPACK gtsv", "mgrec, 2 threads")
    pandas = _times(EWM, "mean, adjusted, none missing", "pandas", "mgrec")
    kalman = _times(STATES, "filter", "statsmodels", "mgrec")
    two, one = "2 CPU threads (Xeon)", "1 CPU thread (Xeon)"
    of_systems = _link(SYSTEMS, f"{lapack:.1f} times LAPACK's `gtsv`")
    of_states = _link(STATES, f"{kalman:.0f} times statsmodels'")
    return [
        ("`lfilter`, 10^7 samples", two, _link(FILTERS, f"{scipy:.1f} times SciPy's")),
        ("`solve_tridiagonal`, 10^7 unknowns", two, of_systems),
        ("`ewm`", one, _link(EWM, f"{pandas:.1f} times pandas'")),
        ("`kalman_filter`, 2 states", one, of_states),
    ]


def _on_gpus() -> list[tuple[str, str, str]]:
    long, few = "constant: 268,435,456", "constant: 1,000,000 x 64, axis 1"
    fraction = newest(CALLS).number(long, "mgrec", "fraction")
    torch, many = (_times(CALLS, case, "torch.cumsum", "mgrec") for case in (long, few))
    jax = _times(PEERS, "arrays f4 2^26, jax", "jax associative_scan", "mgrec call")
    cupyx = newest(GPU_FILTERS).number("order 2, 0.1: 67,108,864 f4", "", "times")
    arrays, prefix = (_efficiency(f"{case}, 2^31") for case in ("arrays", "prefix sum"))
    milliseconds = newest(QUEUED).number("arrays, 2^31", "plan, queued", "ms")
    recurrence, gpu = "`linear_recurrence`", "1 GPU (H200)"
    of_copy = _link(CALLS, f"{fraction:.0%} of the speed of a copy")
    of_torch = f"{torch:.1f} times torch's `cumsum` ({many:.0f} times for a million rows of 64)"
    of_jax = _link(PEERS, f"{jax:.1f} times jax's `associative_scan`")
    of_plan = f"{arrays:.0%} efficiency (prefix sums {prefix:.0%})"
    return [
        (f"{recurrence}, 2^28 steps", gpu, f"{of_copy}, {of_torch}"),
        (f"{recurrence} of arrays, 2^26 steps", gpu, of_jax),
        ("`lfilter`, 2^26 samples", gpu, _link(GPU_FILTERS, f"{cupyx:.0f} times that of cupyx")),
        (
            "`plan`, queued solves of 2^32 steps",
            "2 GPUs (H200)",
            f"{_link(QUEUED, f'{milliseconds:.1f} ms each')}: {of_plan}",
        ),
    ]


def _efficiency(case: str) -> float:
    """Return the time of one GPU for its half over that of two GPUs for all."""
    result = newest(QUEUED)
    alone = result.number(case, "one worker's part, one call", "ms")
    return alone / result.number(case, "plan, queued", "ms")


def _times(study: str, case: str, peer: str, candidate: str) -> float:
    result = newest(study)
    return result.number(case, peer, "ms") / result.number(case, candidate, "ms")


def _link(study: str, words: str) -> str:
    return f"[{words}](benchmarks/results/{newest(study).path.name})"
