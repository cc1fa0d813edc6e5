"""The phases of a chunk in host memory."""

from __future__ import annotations

from ...core.contract.kernels import Kernels, at_once
from .again import again
from .begin import begin, finish
from .one_thread import determine, precompute, propagate
from .threads import determine_on_threads


def kernels(method: str) -> Kernels:
    """The phases of a chunk, on the caller's thread or, by the method "threads", on all."""
    own = determine_on_threads if method == "threads" else determine
    phases = own, at_once(precompute), propagate
    return Kernels(*phases, begin=at_once(begin), finish=finish, again=again)
