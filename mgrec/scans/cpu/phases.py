"""The phases of a chunk in host memory."""

from __future__ import annotations

from ...core.contract.kernels import Kernels, at_once
from .one_thread import determine, precompute, propagate
from .prepared_solver import prepare_solver
from .speculate import correct, speculate
from .threads import determine_on_threads


def kernels(method: str) -> Kernels:
    """The phases of a chunk, on the caller's thread or, by the method "threads", on all."""
    own = determine_on_threads if method == "threads" else determine
    phases = own, at_once(precompute), propagate
    return Kernels(
        *phases, speculate=at_once(speculate), correct=correct, prepare_solver=prepare_solver
    )
