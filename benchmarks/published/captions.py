"""What to look for in a picture of a study: one line each, which no later result makes wrong."""

from __future__ import annotations

_LINES = {
    "adi": "A box over workers: what the axis that is split costs.",
    "alignment": "One thread of a CPU: whose dots lie furthest right, mgrec's or parasail's?",
    "banded": "From how many unknowns on mgrec lies left of SciPy, by numbers of diagonals.",
    "cpu": "One thread of a CPU: how far mgrec lies from a copy, and from plain loops and SciPy.",
    "cuda-alignment": "One long pair, and one query with many short sequences.",
    "cuda-banded": "What pivoting and more diagonals cost: the limit of memory traffic is 1.",
    "cuda-calls": "Public calls: how near each layout comes to the limit of memory traffic, 1.",
    "cuda-filters": "Filters: how near each order comes to the limit of memory traffic, 1.",
    "cuda-gradients": "Inside torch: how near forward and backward passes come to the limit, 1.",
    "cuda-images": "Splines, Gaussians, boxes: how near each comes to the limit of traffic, 1.",
    "cuda-peers": "One row: who comes nearest to the limit of memory traffic, 1.",
    "cuda-peers-rows": "Many rows: who comes nearest to the limit of memory traffic, 1.",
    "cuda-relaxation": "Sweeps that share one reading and writing may lie right of the limit, 1.",
    "cuda-scan": "Kernels alone: which layouts stay away from the limit of memory traffic, 1.",
    "cuda-sizes": "Up to which size a call costs more than its steps do.",
    "cuda-summed-area": "One pass against two cumulative sums, whose traffic is twice as much.",
    "cuda-tridiagonal": "What pivoting costs: random systems beside dominant ones.",
    "ewm": "How far mgrec lies left of pandas, statistic by statistic.",
    "filters": "How far mgrec lies left of SciPy, order by order.",
    "gradients": "Inside torch, forward and backward: how far mgrec lies left of its packages.",
    "graph": "Dask's share: the three phases beside one map task a chunk and an emptied graph.",
    "graph-10000": "Ten thousand chunks, in stages.",
    "queued": "Solves of plans over two workers, alone and queued, beside one worker's part.",
    "grids-dask": "One table and one pair of sequences over two workers, beside one call.",
    "hou-2018": "Where compensation and tiles cross, and whether the hybrid follows the lower.",
    "pogorelskih-2019": "Thomas against reduction: many systems on the left, one on the right.",
    "recordings": "From zarr to zarr: how far mgrec, chunk by chunk, lies left of SciPy on all.",
    "relaxation": "How a sweep gets cheaper where more sweeps share a reading.",
    "scaling": "Efficiency is 1 where twice the workers do twice the work in the same time.",
    "states": "How far mgrec lies left of statsmodels and of hmmlearn, function by function.",
    "streaming": "From disk to disk: how much longer than a copy of the same bytes.",
    "tables": "One pass over an image against OpenCV's, and against NumPy's two.",
    "training": "One sequence over two ranks of torch, beside a rank's part without them.",
    "tridiagonal": "LAPACK pivots as mgrec does, numba loops do not.",
    "tridiagonal-dask": "One system in chunks, beside its chunks solved each alone.",
    "wakatani-2012": "Precompute and determine fall with T, propagate rises.",
    "wakatani-2013": "Where speedups stop rising with P, and where the model says so.",
}


def line_of(study: str) -> str:
    """Of a study by the name in its record; underscores and hyphens are the same."""
    name = study.replace("_", "-").removesuffix("-cpu")
    return _LINES.get(name, "A line a case, a dot a candidate.")
