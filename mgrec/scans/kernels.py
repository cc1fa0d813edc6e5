"""The kernels of scans on one backend, and the correction of a speculative chunk of w = s·w + t.

A contractive chunk is determined from a carry-in of 0. After its prefix no finite carry-in has an
effect: the kernels determine the prefix again from the true carry-in. If a row's prefix ends in a
state that is not finite, they determine the later steps of the row too, without terms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ..core.algebra.transfer_map import affine
from ..core.arrays.array_types import to_host
from ..core.arrays.chunk import Chunk, as_contiguous, write_contiguous
from ..core.backends import Backend
from ..core.contract.kernels import Kernels, ShardSolver


@dataclass(frozen=True)
class ScanKernels(Kernels):
    """The phases of scans, and kernels that no other family has.

    `multiply_by_states`: write the gradients of the coefficients of linear recurrences, from the
      adjoint.
    `prepare_linked`: prepare a solver for the adjoint of the parts of ranks: ``prepare_linked`` of
      the kernels.
    """

    multiply_by_states: Callable[..., None] | None = None
    prepare_linked: Callable[..., ShardSolver] | None = None


def kernels_of(backend: Backend) -> ScanKernels:
    """Return the kernels of scans on a backend."""
    return cast(ScanKernels, backend.kernels("scans"))


Arrays = tuple[Any, ...]

_SAFE_FRACTION = 4.0
"""A state overflows nowhere in a prefix, whose results from 0 are small, if the carry-in grows to
less than 1/4 of the largest number."""


@dataclass(frozen=True)
class Prefix:
    """The first steps of a chunk, after which no finite carry-in has an effect.

    `s` has the coefficients of the whole chunk, or 1 if all are above 0: they decide what becomes
    of an infinite state. `growth` is log2 of the largest product of the first coefficients.
    """

    s: Any
    first: Chunk
    growth: float

    @property
    def operand_bytes(self) -> int:
        return int(self.s.nbytes)


def correct(determine: Callable[..., Any], prefix: Prefix, carry_in: Arrays, results: Arrays) -> Arrays:
    """Determine the first steps of a chunk from its carry-in, and those after infinite states.

    `determine` is the phase of the kernels. Provisional results are written, but not read: the
    function may run twice.
    """
    (result,), first = results, prefix.first
    part, later = _split(result, first)
    states = write_contiguous(lambda w: determine(affine, first, carry_in, (w,)), part)
    if not _is_safe(prefix, carry_in[0]):
        state = to_host(states[:, 0 if first.reverse else -1])
        _propagate_infinite(determine, prefix, state, later)
    return results


def _split(array: Any, first: Chunk) -> tuple[Any, Any]:
    """Return the steps of the prefix and those after it, of an array (outer, steps, inner)."""
    boundary = array.shape[1] - first.steps if first.reverse else first.steps
    parts = array[:, :boundary], array[:, boundary:]
    return (parts[1], parts[0]) if first.reverse else parts


def _propagate_infinite(determine: Callable[..., Any], prefix: Prefix, state: np.ndarray, later: Any) -> None:
    """Determine, without terms, the rows whose prefix ends in a state that is not finite."""
    is_infinite, first = ~np.isfinite(state), prefix.first
    if not is_infinite.any() or not later.size:
        return
    s = prefix.s if prefix.s.shape[1] == 1 else as_contiguous(_split(prefix.s, first)[1])
    no_terms = np.zeros((1, 1, 1), later.dtype)
    chunk = Chunk((s, no_terms), later.shape, later.dtype, first.reverse)
    values = np.empty_like(later, order="C")
    determine(affine, chunk, (state,), (values,))
    for outer, inner in np.argwhere(is_infinite):
        later[outer, :, inner] = values[outer, :, inner]


def _is_safe(prefix: Prefix, carry_in: np.ndarray) -> bool:
    """Return whether no state of the prefix can overflow."""
    largest = float(np.finfo(prefix.first.dtype).max) / _SAFE_FRACTION
    with np.errstate(all="ignore"):
        bits = np.log2(np.abs(carry_in.astype(np.float64))) + prefix.growth
    return bool((bits < np.log2(largest)).all())
