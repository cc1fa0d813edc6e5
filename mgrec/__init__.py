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

from . import signal, tuning, types
from .algebra.coefficient import Coefficient
from .algebra.transfer_map import TransferMap
from .families.wavefront.alignment.sequences import Sequences
from .recurrences import maps
from .recurrences.alignment import smith_waterman
from .recurrences.custom import scan
from .recurrences.factors import factor_tridiagonal
from .recurrences.laws import check_laws
from .recurrences.linear import linear_recurrence
from .recurrences.plan import plan
from .recurrences.rational import rational_recurrence
from .recurrences.relaxation import sor
from .recurrences.segments import starts
from .recurrences.tables import summed_area_table
from .recurrences.tridiagonal import solve_tridiagonal
from .recurrences.wavefront import wavefront
from .recurrences.weighted import weighted_scan

__all__ = [
    "Coefficient",
    "Sequences",
    "TransferMap",
    "check_laws",
    "factor_tridiagonal",
    "linear_recurrence",
    "maps",
    "plan",
    "rational_recurrence",
    "scan",
    "signal",
    "smith_waterman",
    "solve_tridiagonal",
    "sor",
    "starts",
    "summed_area_table",
    "tuning",
    "types",
    "wavefront",
    "weighted_scan",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Imports distributed, which takes as long as all the rest: for those who ask for it.
    if name == "dask":
        return import_module(".dask", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
