"""mgrec: recurrences that are too long, too many or too slow for one loop.

linear_recurrence, rational_recurrence
    Recurrences of first order along an axis of NumPy, CuPy or Dask arrays.
scan
    Recurrences by any transfer map: those of ``maps``, or a TransferMap of your own, which
    check_laws tests.
weighted_scan
    All entries before each one, accumulated, weighted by the steps between.
starts
    Where each of many sequences starts, for recurrences and filters that start anew there.
Coefficient
    An operand that is computed on the fly.
sor
    Successive over-relaxation of grids.
smith_waterman, Sequences
    The best alignment of two sequences, or of many.
summed_area_table
    Sums over all rectangles that begin at the first corner of an array.
wavefront
    Loops over grids, whose entries depend on those above and to the left.
solve_tridiagonal
    Tridiagonal systems of linear equations, with pivoting.
factor_tridiagonal
    Tridiagonal matrices, factored once for many right-hand sides.
plan
    Repeated solves of one shape on a cluster.
signal, dask, tuning
    Filters as in SciPy; what a Dask cluster needs beside; the constants of P-scheme/G.
types, xarray
    Types for annotations; methods of DataArrays and Datasets, once they are imported.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "Coefficient": ".algebra.coefficient",
    "Sequences": ".families.wavefront.alignment.sequences",
    "TransferMap": ".algebra.transfer_map",
    "check_laws": ".recurrences.laws",
    "factor_tridiagonal": ".recurrences.factors",
    "linear_recurrence": ".recurrences.linear",
    "plan": ".recurrences.plan",
    "rational_recurrence": ".recurrences.rational",
    "scan": ".recurrences.custom",
    "smith_waterman": ".recurrences.alignment",
    "solve_tridiagonal": ".recurrences.tridiagonal",
    "sor": ".recurrences.relaxation",
    "starts": ".recurrences.segments",
    "summed_area_table": ".recurrences.tables",
    "wavefront": ".recurrences.wavefront",
    "weighted_scan": ".recurrences.weighted",
}
"""The module of each public function and class."""
_MODULES = {
    "maps": ".recurrences.maps",
    "signal": ".signal",
    "tuning": ".tuning",
    "types": ".types",
}

__all__ = [*_HOMES, *_MODULES]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Imported when first used: all of mgrec takes half a second, and a signal to the command must
    # find its handler before.
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name], __name__), name)
        globals()[name] = value
        return value
    # dask is not in __all__: it imports distributed, which takes as long as all the rest.
    if name in _MODULES or name == "dask":
        return import_module(_MODULES.get(name, ".dask"), __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "dask", "__version__"])
