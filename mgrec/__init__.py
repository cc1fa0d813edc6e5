"""mgrec: recurrences on NumPy, CuPy and Dask arrays.

linear_recurrence, rational_recurrence
    Solve recurrences of first order along an axis.
scan
    Solve recurrences of any transfer map: one of ``maps``, or a TransferMap of your own, which
    check_laws tests.
weighted_scan
    Accumulate all entries before each one, weighted by the steps between them.
starts
    Mark the first step of each sequence in an array of concatenated sequences.
Coefficient
    An operand that kernels compute on the fly.
sor
    Apply successive over-relaxation to grids.
smith_waterman, Sequences
    Align two sequences, or many pairs.
summed_area_table
    Compute the sums of all rectangles that start at the first corner of an array.
wavefront
    Compute loops over grids in which a cell depends on the cells above and to the left.
solve_tridiagonal
    Solve tridiagonal systems of linear equations, with pivoting.
solve_banded
    Solve banded systems of linear equations, with the arguments of SciPy.
solve_block_tridiagonal
    Solve tridiagonal systems of small blocks.
factor_tridiagonal
    Factor tridiagonal matrices for many right-hand sides.
plan
    Prepare a recurrence for repeated solves of one shape on a cluster.
signal, ndimage, hmm, statespace, adjoint, dask, collective, tuning
    Filters as in SciPy; filters of images as in SciPy; hidden Markov models; Kalman filters;
    gradients; functions for Dask clusters; groups of processes; constants of P-scheme/G.
types, xarray
    Types for annotations; methods of DataArrays and Datasets, available after their import.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "Coefficient": ".core.algebra.coefficient",
    "Sequences": ".grids.alignment.sequences",
    "TransferMap": ".core.algebra.transfer_map",
    "check_laws": ".scans.laws",
    "factor_tridiagonal": ".tridiagonal.factor_api",
    "linear_recurrence": ".scans.functions",
    "plan": ".distributed.plan.functions",
    "rational_recurrence": ".scans.functions",
    "scan": ".scans.functions",
    "smith_waterman": ".grids.alignment.api",
    "solve_banded": ".banded.api",
    "solve_block_tridiagonal": ".banded.blocks",
    "solve_tridiagonal": ".tridiagonal.api",
    "sor": ".grids.sor.api",
    "starts": ".core.arrays.resets",
    "summed_area_table": ".grids.table.api",
    "wavefront": ".grids.loops.api",
    "weighted_scan": ".scans.weighted",
}
"""The module of each public function and class."""
_MODULES = {
    "adjoint": ".adjoint",
    "collective": ".collective",
    "hmm": ".hmm",
    "maps": ".maps",
    "ndimage": ".ndimage",
    "signal": ".signal",
    "statespace": ".statespace",
    "tuning": ".tuning",
    "types": ".types",
}

__all__ = [*_HOMES, *_MODULES]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Imported at the first use: the import of all of mgrec takes half a second, and the command
    # must install its signal handlers before.
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name], __name__), name)
        globals()[name] = value
        return value
    # dask is not in __all__: it imports distributed, which takes as long as everything else.
    if name in _MODULES or name == "dask":
        return import_module(_MODULES.get(name, ".dask"), __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "dask", "__version__"])
