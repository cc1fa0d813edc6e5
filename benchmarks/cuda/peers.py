"""mgrec's scans on one GPU beside their peers, in one run.

Every candidate is checked before it is timed, in turns, with a cold cache. *kernel* is mgrec's
function with ``out=``, which the device times while the host is ahead; *call* allocates its result,
and is timed by the host. The libraries of CUB's scans come from cub/build.sh; of their many tunings
the fastest is shown.
"""

from __future__ import annotations

from functools import partial

import mgrec

from ..harness.study import Study
from ..papers.loops import light, operations
from . import packages
from .candidates import compare, compare_with_call, draw_work
from .cub.libraries import libraries
from .groups import Groups, main

# Of these the tables show the fastest.
FAMILIES = ("CUB 3.0", "CUB 3.5", "accelerated-scan Triton", "cuda.compute")


def arrays(study: Study, dtype: str, power: int) -> None:
    work = draw_work(f"arrays {dtype} 2^{power}", (2**power,), dtype)
    builds = {}
    for library in libraries():
        builds |= library.builds(work.s, work.t)
    if not builds:
        study.miss(work.name, "CUB", "no library: run benchmarks/cuda/cub/build.sh")
    compare_with_call(study, work, builds)


def cuda_compute(study: Study) -> None:
    work = draw_work("arrays f4 2^28, cuda.compute", (2**28,), "f4")
    builds = {
        "mgrec kernel": work.kernel,
        "cuda.compute, zip to states": partial(packages.compute_arrays, work.s, work.t),
        "cuda.compute, pairs to pairs": partial(packages.compute_pairs, work.s, work.t),
    }
    compare(study, work, builds)


def rows(study: Study) -> None:
    """accelerated-scan's own shape; its Triton kernel also with other sizes."""
    work = draw_work("2,048 rows of 32,768, f4", (2048, 32768), "f4")
    triton = partial(packages.accelerated_triton, work.s, work.t)
    builds = {"accelerated-scan Triton": triton}
    for block, warps in ((2048, 8), (4096, 8), (4096, 16), (8192, 16)):
        builds[f"accelerated-scan Triton {block}, {warps} warps"] = partial(triton, block, warps)
    builds["accelerated-scan warp"] = partial(packages.accelerated_warp, work.s, work.t)
    compare_with_call(study, work, builds)


def constant(study: Study) -> None:
    for dtype, power in (("f4", 28), ("f8", 27), ("f4", 26)):
        work = draw_work(f"constant s {dtype} 2^{power}", (2**power,), dtype, 0.9)
        cupyx = {"cupyx lfilter": partial(packages.filter_constant, 0.9, work.t)}
        compare_with_call(study, work, cupyx if power == 26 else {})


def sums(study: Study) -> None:
    work = draw_work("prefix sum f4 2^28", (2**28,), "f4", 1.0)
    builds = {"copy": work.copy, "mgrec kernel, s = 1": work.kernel}
    builds["cupy.cumsum"] = partial(packages.cumulative_sum, work.t)
    builds["torch.cumsum"] = partial(packages.torch_sum, work.t)
    for library in libraries():
        builds[f"{library.name} InclusiveSum"] = partial(library.sum, work.t)
    compare(study, work, builds)


def coefficient(study: Study, name: str, count: int) -> None:
    """The papers' cases: a coefficient of `count` multiplications and divisions a step."""
    s = mgrec.Coefficient(operations(count) if count else light)
    for power in (26, 28) if not count else (26,):
        work = draw_work(f"case {name} f4 2^{power}", (2**power,), "f4", s)
        alone = partial(packages.evaluate_coefficient, count, work.t)
        compare_with_call(study, work, {"s(i) + t alone": alone})


def by_host(study: Study, peer: str, power: int) -> None:
    """A package with its own streams, or a slow one."""
    scan = {"jax": packages.jax_scan, "torch": packages.torch_scan}[peer]
    work = draw_work(f"arrays f4 2^{power}, {peer}", (2**power,), "f4")
    name = f"{peer} associative_scan"
    builds = {"mgrec call": work.call, name: partial(scan, work.s, work.t)}
    compare(study, work, builds, 9, by_host=True)


# The most important cases first: a budget of seconds may end before the last.
GROUPS: Groups = {
    "f4": lambda study: arrays(study, "f4", 28),
    "rows": rows,
    "f8": lambda study: arrays(study, "f8", 27),
    "constant": constant,
    "L": lambda study: coefficient(study, "L", 0),
    "compute": cuda_compute,
    "sums": sums,
    "jax": lambda study: by_host(study, "jax", 26),
    "torch": lambda study: by_host(study, "torch", 24),
    "M": lambda study: coefficient(study, "M", 200),
    "H": lambda study: coefficient(study, "H", 500),
}

if __name__ == "__main__":
    main("cuda-peers", __spec__.name, __doc__, GROUPS, FAMILIES)
