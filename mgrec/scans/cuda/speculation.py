"""Speculation on w = s·w + t: a chunk is determined from 0, before its carry-in is known.

After its *prefix* no finite carry-in has an effect: only the prefix is determined again from the
true one. For a coefficient array, of one row, a kernel finds the prefix first, and the single pass
does nothing if there is none: the host does not wait for that. The pass also reads the signs of all
coefficients, which decide whether an infinite carry-in ends as inf, -inf or nan.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.algebra.transfer_map import TransferMap, affine
from ...core.arrays.chunk import Chunk
from ...engines.cuda.device import fetch
from ...engines.cuda.launches import Launch, PreparedLaunches, is_value, run_cached
from ..kernels import Prefix
from ..summaries import AffineSummary, contractive_summary, margins
from .determine import prepare
from .program import ScanLayout, describe, print_program

logger = logging.getLogger("mgrec")
Arrays = tuple[Any, ...]

SHORTEST = 4096
"""Steps of the shortest prefix; longer ones are this times a power of two."""
_PREFIX_FRACTION, _CONSTANT_PREFIX_FRACTION = 256, 8
"""A prefix is at most 1/256 of a chunk with a coefficient array, for which a block takes 0.4 ns a
step to find it, and at most 1/8 with a constant coefficient."""
_LONGEST = 1 << 20
"""Steps of the longest prefix with a coefficient array: all of them are determined again, since the
host does not know how many suffice."""
_RANGE_BITS = {"f": 279, "d": 2100}
"""log2 of the largest number divided by the smallest, plus 2: as ``FORGOTTEN`` of the kernels."""
OUTCOME_SIZE = 3
"""Numbers of ``struct Told``; those of the rows follow."""
_LAYOUT = ScanLayout(1024, 4)

_EVIDENCE_KERNELS = """
extern "C" __global__ void __launch_bounds__(THREADS) evidence_kernel(
    const T* s, long long steps, long long most, Told* told) {{
  find_prefix(s, steps, most, told);
}}
extern "C" __global__ void __launch_bounds__(THREADS) account_kernel(
    const T* results, long long steps, long long inners, long long head, Told* told) {{
  double* const largest_of = reinterpret_cast<double*>(told + 1);
  summarise_results(results, steps, inners, {prefix_steps}, largest_of, largest_of + gridDim.x);
}}
"""


def speculate(
    transfer_map: TransferMap, chunk: Chunk, results: Arrays
) -> Callable[[], tuple[AffineSummary, Prefix] | None] | None:
    """Launch the determination of a chunk from a carry-in of 0.

    Return a function that waits for it and returns the summary and the prefix, or None if the
    chunk is not contractive, or a result is not finite or near overflow; the results then have no
    meaning. Return None if the chunk is known not to be contractive.
    """
    import cupy

    limit = longest_prefix(chunk)
    if not limit:
        return None
    outcome = cupy.empty(OUTCOME_SIZE + 2 * math.prod(chunk.row_shape), np.float64)
    carry_in = np.zeros((), chunk.dtype), np.array(limit, np.int64)
    run_cached(prepare_speculation, transfer_map, chunk, carry_in, (*results, outcome))
    wait = fetch(outcome)
    return lambda: _read_outcome(chunk, limit, wait())


def longest_prefix(chunk: Chunk) -> int:
    """Return the prefix for a constant coefficient, or the longest one for an array; 0 if none."""
    s = chunk.operands[0]
    if is_value(s):
        return prefix_of_constant(s, chunk)
    is_row = s.shape == chunk.shape and s.dtype == chunk.dtype and chunk.row_shape == (1, 1)
    most = min(chunk.steps // _PREFIX_FRACTION, _LONGEST)
    return 1 << most.bit_length() - 1 if is_row and most >= SHORTEST else 0


def prefix_of_constant(s: np.ndarray, chunk: Chunk) -> int:
    """Return the prefix of a chunk with a constant coefficient of this value; 0 if none."""
    with np.errstate(divide="ignore"):
        bits = -np.log2(np.abs(s.astype(np.float64)).item())
    prefix = SHORTEST
    while prefix * bits < _RANGE_BITS[chunk.dtype.char] and prefix <= chunk.steps:
        prefix *= 2
    return prefix if prefix <= chunk.steps // _CONSTANT_PREFIX_FRACTION else 0


def sign_of_powers(s: Any, chunk: Chunk) -> float:
    """Return the sign of the product of all coefficients, which are equal; 0 if they are."""
    return float(np.sign(s) ** chunk.steps)


def prepare_speculation(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays
) -> PreparedLaunches:
    """Compile the launches of a speculation.

    `carry_in` is 0, and the result of :func:`longest_prefix`; `results` are the states, and the
    numbers of ``struct Told`` and of the rows.
    """
    (state, limit), (result, outcome), s = carry_in, results, chunk.operands[0]
    sizes, is_constant = (np.int64(chunk.steps), np.int64(chunk.shape[2])), is_value(s)
    watched = None if is_constant else outcome
    single_pass = prepare(transfer_map, chunk, (state,), (result,), outcome=watched)
    layout = replace(_LAYOUT, reverse=chunk.reverse)
    text = print_program(
        affine,
        1,
        describe(chunk),
        layout,
        ("scans/cuda/evidence",),
        _EVIDENCE_KERNELS,
        prefix_steps="head" if is_constant else "(long long)told->steps",
    )
    rows, threads = math.prod(chunk.row_shape), layout.threads
    find = Launch(text, "evidence_kernel", 1, threads, (s, sizes[0], limit, outcome))
    account = Launch(text, "account_kernel", rows, threads, (result, *sizes, limit, outcome))
    before = () if is_constant else (find,)
    return PreparedLaunches(*before, *single_pass.launches, account, units=single_pass.units)


def _read_outcome(chunk: Chunk, limit: int, outcome: np.ndarray) -> tuple[AffineSummary, Prefix] | None:
    s, (steps, growth) = chunk.operands[0], outcome[:2]
    if is_value(s):
        steps, growth = limit, 0.0
        sign = sign_of_powers(s.astype(np.float64).item(), chunk)
    else:
        is_negative, has_zero = outcome[2:OUTCOME_SIZE].view(np.uint32)
        sign = 0.0 if has_zero else -1.0 if is_negative else 1.0
    largest, carry_out = outcome[OUTCOME_SIZE:].reshape(2, *chunk.row_shape)
    top = margins(chunk.dtype).offset_on_gpu
    # A state that is not finite stays so to the end.
    if not steps or not ((largest <= top) & (np.abs(carry_out) <= top)).all():
        logger.debug("speculate: %d steps depend on their carry-in; determined again", chunk.steps)
        return None
    summary = contractive_summary(sign, carry_out.astype(chunk.dtype), growth)
    return summary, Prefix(s, _first_steps(chunk, limit), float(growth))


def _first_steps(chunk: Chunk, steps: int) -> Chunk:
    """Return the first steps of a chunk in the order of the recurrence, with a copy of their terms.

    The other terms can then be released.
    """
    start, stop = (chunk.steps - steps, chunk.steps) if chunk.reverse else (0, steps)
    first = chunk.between(start, stop)
    s, t = first.operands
    return replace(first, operands=(s, t if is_value(t) else t.copy()))
