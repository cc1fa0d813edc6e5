"""The three numbers of the README and of the first page of the documentation."""

from __future__ import annotations

import re
from pathlib import Path

from .rows import newest

PATH = Path(__file__).parents[2] / "README.md"
CALLS, PEERS, QUEUED = "cuda-calls-h100", "cuda-peers-h100", "queued-h100-2"
GPU_FILTERS, FILTERS, EWM = "cuda-filters-h100", "filters-epyc-2", "ewm-epyc-2"
SYSTEMS = "tridiagonal-epyc-4"
STUDIES = CALLS, PEERS, QUEUED, GPU_FILTERS, FILTERS, EWM, SYSTEMS
"""The studies whose results are read."""
_BLOCK = re.compile(r"(<!-- numbers.*?-->\n).*?(<!-- end of numbers -->)", re.DOTALL)


def filled(text: str) -> str:
    """Return the text of a README with the numbers of the newest results."""
    return _BLOCK.sub(lambda block: f"{block[1]}{numbers()}{block[2]}", text)


def numbers() -> str:
    """Return one line for one GPU, one for two GPUs and one for two cores, as Markdown."""
    return "".join(f"- {line}\n" for line in (_one_gpu(), _two_gpus(), _two_cores()))


def _one_gpu() -> str:
    long, few = "constant: 268,435,456", "constant: 1,000,000 x 64, axis 1"
    fraction = newest(CALLS).number(long, "mgrec", "fraction")
    torch, many = (_times(CALLS, case, "torch.cumsum", "mgrec") for case in (long, few))
    jax = _times(PEERS, "arrays f4 2^26, jax", "jax associative_scan", "mgrec call")
    cupyx = newest(GPU_FILTERS).number("order 2, 0.1: 67,108,864 f4", "", "times")
    return (
        f"**One GPU** ({_link(CALLS, 'H100')}): 2^28 steps at {fraction:.0%} of the "
        f"speed of a copy, {torch:.1f} times torch's `cumsum` ({many:.0f} times for a million rows "
        f"of 64); {_link(PEERS, f'{jax:.1f} times')} jax's `associative_scan`; "
        f"`lfilter` {_link(GPU_FILTERS, f'{cupyx:.0f} times')} that of cupyx."
    )


def _two_gpus() -> str:
    case, result = "arrays, 2^31", newest(QUEUED)
    one, two = (
        result.number(case, candidate, "ms")
        for candidate in ("one worker's part, one call", "plan, queued")
    )
    prefix = "prefix sum, 2^31"
    read_twice = result.number(prefix, "one worker's part, one call", "ms")
    read_twice /= result.number(prefix, "plan, queued", "ms")
    return (
        f"**Two GPUs** ({_link(QUEUED, 'two H100')}): queued solves of 2^32 steps take {two:.1f} "
        f"ms each, and one GPU {one:.1f} ms for half of them: {one / two:.0%} efficiency "
        f"({read_twice:.0%} for prefix sums, which are read twice)."
    )


def _two_cores() -> str:
    threads = "mgrec call, 2 threads"
    scipy = _times(FILTERS, "lfilter, order 2, float64, 10^7", "scipy", threads)
    pandas = _times(EWM, "mean, adjusted, none missing", "pandas", "mgrec")
    case = "one of 10,000,000, float64, random"
    lapack = _times(SYSTEMS, case, "LAPACK gtsv", "mgrec, 2 threads")
    return (
        f"**Two CPU threads** (EPYC): 10^7 samples by `lfilter` are "
        f"{_link(FILTERS, f'{scipy:.1f} times')} as fast as SciPy's, 10^7 unknowns by "
        f"`solve_tridiagonal` {_link(SYSTEMS, f'{lapack:.1f} times')} as fast as LAPACK's `gtsv`; "
        f"`ewm` on one thread is {_link(EWM, f'{pandas:.1f} times')} as fast as pandas'."
    )


def _times(study: str, case: str, peer: str, candidate: str) -> float:
    result = newest(study)
    return result.number(case, peer, "ms") / result.number(case, candidate, "ms")


def _link(study: str, words: str) -> str:
    return f"[{words}](benchmarks/results/{newest(study).path.name})"
