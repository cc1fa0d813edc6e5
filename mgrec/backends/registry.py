"""Which kernels solve the chunks of a family: in every backend a folder of the family's name."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec

from ..families.kernels import Kernels

FAMILIES = ("transfer", "filters", "ewm", "tridiagonal", "wavefront")
"""In a backend that has kernels for it, each has a module ``phases`` with ``kernels(method)``."""

_MACHINES = {"cpu": "host memory", "cuda": "a GPU"}


@cache
def kernels_of(machine: str, family: str, method: str = "auto") -> Kernels:
    """The kernels of a family on a machine, which is a folder of ``backends``.

    `method` names kernels of a GPU: see :func:`mgrec.linear_recurrence`. On a CPU "threads" shares
    a call among all threads; any other method runs on the caller's.
    """
    if family not in FAMILIES:
        raise LookupError(f"family must be one of {FAMILIES}; got {family!r}")
    if find_spec(f".{machine}.{family}", __package__) is None:
        place = _MACHINES.get(machine, machine)
        raise NotImplementedError(
            f"there are no kernels for {family} recurrences over arrays on {place} yet: move the "
            f"arrays to host memory with cupy.asnumpy"
        )
    found: Kernels = import_module(f".{machine}.{family}.phases", __package__).kernels(method)
    return found
