"""Which kernels solve the chunks of a family: a module ``phases`` for each engine in its folder."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec

from ..core.contract.kernels import Kernels

_MACHINES = {"cpu": "host memory", "cuda": "a GPU"}
_PACKAGE = __package__.partition(".")[0]


@cache
def kernels_of(engine: str, family: str, method: str = "auto") -> Kernels:
    """The kernels of a family on an engine: what ``kernels(method)`` of its ``phases`` returns.

    Parameters
    ----------
    engine : {"cpu", "cuda"}
        A folder in that of the family.
    family : str
        The folder of the family in this package, such as "scans" or "grids.table".
    method : str
        Kernels of a GPU: see :func:`mgrec.linear_recurrence`. On a CPU "threads" divides a call
        among all threads; any other method runs on the caller's.
    """
    folder = f"{_PACKAGE}.{family}.{engine}"
    if find_spec(folder) is None:
        raise NotImplementedError(
            f"there are no kernels of {family} for arrays on {_MACHINES.get(engine, engine)} yet: "
            f"move the arrays to host memory with cupy.asnumpy"
        )
    found: Kernels = import_module(f"{folder}.phases").kernels(method)
    return found
