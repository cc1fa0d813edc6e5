"""mgrec's scans on one GPU beside their peers, in one run.

Every candidate is checked before it is timed, in turns, with a cold cache. *kernel* is mgrec's
single pass into a result that exists; *call* the public function, which allocates. The
libraries of CUB's scans come from cub/build.sh; of their many tunings the fastest is shown.

usage: python -m benchmarks.cuda.peers [GROUP ...] [--out FOLDER] [--plot RESULT]
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ..harness.papers import light, operations
from ..harness.study import Study
from .groups import Groups, fastest, main

# Of these the tables show the fastest.
FAMILIES = ("CUB 3.0", "CUB 3.5", "accelerated-scan Triton", "cuda.compute")


def arrays(study: Study, dtype: str, steps: int) -> None:
    from .candidates import compare, draw_work
    from .cub.libraries import libraries

    work = draw_work(f"arrays {dtype} 2^{steps.bit_length() - 1}", (1, steps, 1), dtype)
    builds = {"copy": work.copy, "mgrec kernel": work.kernel}
    for library in libraries():
        builds |= library.builds(work.s, work.t)
    if not libraries():
        study.miss(work.case.name, "CUB", "no library: run benchmarks/cuda/cub/build.sh")
    compare(study, work, builds)
    compare(study, work, {"mgrec call": work.call}, by_host=True)


def cuda_compute(study: Study) -> None:
    from . import packages
    from .candidates import compare, draw_work

    work = draw_work("arrays f4 2^28, cuda.compute", (1, 2**28, 1), "f4")
    builds = {
        "mgrec kernel": work.kernel,
        "cuda.compute, zip to states": partial(packages.compute_arrays, work.s, work.t),
        "cuda.compute, pairs to pairs": partial(packages.compute_pairs, work.s, work.t),
    }
    compare(study, work, builds)


def rows(study: Study) -> None:
    """accelerated-scan's own shape; its Triton kernel also with other sizes."""
    from . import packages
    from .candidates import compare, draw_work

    work = draw_work("2,048 rows of 32,768, f4", (2048, 32768, 1), "f4")
    triton = partial(packages.accelerated_triton, work.s, work.t)
    builds = {"copy": work.copy, "mgrec kernel": work.kernel, "accelerated-scan Triton": triton}
    for block, warps in ((2048, 8), (4096, 8), (4096, 16), (8192, 16)):
        builds[f"accelerated-scan Triton {block}, {warps} warps"] = partial(triton, block, warps)
    builds["accelerated-scan warp"] = partial(packages.accelerated_warp, work.s, work.t)
    compare(study, work, builds)
    compare(study, work, {"mgrec call": work.call}, by_host=True)


def constant(study: Study) -> None:
    from . import packages
    from .candidates import compare, draw_work

    for dtype, power in (("f4", 28), ("f8", 27), ("f4", 26)):
        work = draw_work(f"constant s {dtype} 2^{power}", (1, 2**power, 1), dtype, 0.9)
        builds = {"copy": work.copy, "mgrec kernel": work.kernel}
        if power == 26:
            builds["cupyx lfilter"] = partial(packages.filter_constant, 0.9, work.t)
        compare(study, work, builds)
        compare(study, work, {"mgrec call": work.call}, by_host=True)


def sums(study: Study) -> None:
    from . import packages
    from .candidates import compare, draw_work
    from .cub.libraries import libraries

    work = draw_work("prefix sum f4 2^28", (1, 2**28, 1), "f4", 1.0)
    builds = {"copy": work.copy, "mgrec kernel, s = 1": work.kernel}
    builds["cupy.cumsum"] = partial(packages.cumulative_sum, work.t)
    builds["torch.cumsum"] = partial(packages.torch_sum, work.t)
    for library in libraries():
        builds[f"{library.name} InclusiveSum"] = partial(library.sum, work.t)
    compare(study, work, builds)


def coefficient(study: Study, name: str, count: int) -> None:
    """The papers' cases: a coefficient of `count` multiplications and divisions a step."""
    from mgrec.core.algebra.fingerprint import StepFunction
    from mgrec.core.arrays.chunk import CoefficientOperand

    from . import packages
    from .candidates import compare, draw_work

    function = operations(count) if count else light
    operand = CoefficientOperand(StepFunction(function), 0)
    for power in (26, 28) if not count else (26,):
        work = draw_work(f"case {name} f4 2^{power}", (1, 2**power, 1), "f4", operand)
        alone = partial(packages.evaluate_coefficient, count, work.t)
        builds = {"copy": work.copy, "mgrec kernel": work.kernel, "s(i) + t alone": alone}
        compare(study, work, builds)
        compare(study, work, {"mgrec call": work.call}, by_host=True)


def by_host(study: Study, peer: str, power: int) -> None:
    """A package with its own streams, or a slow one."""
    from . import packages
    from .candidates import compare, draw_work

    scan = {"jax": packages.jax_scan, "torch": packages.torch_scan}[peer]
    work = draw_work(f"arrays f4 2^{power}, {peer}", (1, 2**power, 1), "f4")
    name = f"{peer} associative_scan"
    builds = {"mgrec call": work.call, name: partial(scan, work.s, work.t)}
    compare(study, work, builds, 9, by_host=True)


# The most important cases first: a budget of seconds may end before the last.
GROUPS: Groups = {
    "f4": lambda study: arrays(study, "f4", 2**28),
    "rows": rows,
    "f8": lambda study: arrays(study, "f8", 2**27),
    "constant": constant,
    "L": lambda study: coefficient(study, "L", 0),
    "compute": cuda_compute,
    "sums": sums,
    "jax": lambda study: by_host(study, "jax", 26),
    "torch": lambda study: by_host(study, "torch", 24),
    "M": lambda study: coefficient(study, "M", 200),
    "H": lambda study: coefficient(study, "H", 500),
}


def summary(rows: list[dict[str, Any]]) -> list[str]:
    lines = []
    for row in fastest(rows, FAMILIES):
        bits = "" if row.get("same_bits", True) else ", other bits in a second run"
        lines.append(
            f"{row['case']:32} {row['candidate']:38} {row['median'] * 1e3:9.4f} ms "
            f"{row['fraction']:6.3f} by the {row['timed_by']}'s clock{bits}"
        )
    return lines


def draw(record: dict[str, Any]) -> Any:
    """Fractions of the floor, case by case."""
    from matplotlib.figure import Figure

    rows = fastest(record["cases"], FAMILIES)[::-1]
    figure = Figure(figsize=(9, 1 + 0.17 * len(rows)), layout="constrained")
    axes = figure.subplots()
    colours = ["C0" if row["candidate"].startswith("mgrec") else "0.7" for row in rows]
    axes.barh(range(len(rows)), [row["fraction"] for row in rows], color=colours)
    names = [f"{row['case']}: {row['candidate']}" for row in rows]
    axes.set_yticks(range(len(rows)), names, fontsize=6)
    axes.axvline(1, color="0.4", linewidth=0.8)
    axes.set(xlabel="fraction of the floor: the least traffic at a copy's bandwidth")
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_title(f"{'; '.join(record['machine']['gpus'])}, {record['date'][:10]}")
    return figure


if __name__ == "__main__":
    main("cuda-peers", __spec__.name, __doc__, GROUPS, draw, summary)
