"""Chunks of w = s·w + t that forget any carry-in: determined and summarised in one pass.

A chunk is determined from 0 before its carry-in is known. Its *head* are so many first steps that
their coefficients leave nothing of any state; with the true carry-in they are determined again, and
all others stand. Where coefficients are an array, of one row, a kernel finds the head first, and
the single pass does nothing unless there is one: nobody waits for that. On its way the pass looks
at the signs of all coefficients, by which an infinite carry-in ends as inf, -inf or nan.
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
from ..affine import AffineSummary
from ..margins import margins
from ..prefix import DevicePrefix
from .determine import prepare
from .program import Layout, print_program
from .sources import describe

logger = logging.getLogger("mgrec")

Arrays = tuple[Any, ...]
Found = tuple[AffineSummary, DevicePrefix]

SHORTEST = 4096
"""Steps of the shortest head; others are powers of two times as long."""
_SHARE, _SHARE_OF_CONSTANT = 256, 8
"""A head is at most so large a part of a chunk: to look for one takes a block 0.4 ns a step."""
_FORGOTTEN = {"f": 279, "d": 2100}
"""log2 of how often the largest number holds the smallest, and 2 more: as of the kernels."""
# The exponent of a product below all numbers, whatever it is multiplied by.
_VANISHED = -5000
_TOLD = 3
"""Numbers of ``struct Told``; what is told of the rows comes behind them."""
_LOOKING = Layout(1024, 4)

_CARRY_IN = """
extern "C" __global__ void __launch_bounds__(THREADS) evidence_kernel(
    const T* s, long long steps, long long most, Told* told) {{
  find_head(s, steps, most, told);
}}
extern "C" __global__ void __launch_bounds__(THREADS) account_kernel(
    const T* results, long long steps, long long inners, long long head, Told* told) {{
  double* const largest_of = reinterpret_cast<double*>(told + 1);
  take_account(results, steps, inners, {prefix}, largest_of, largest_of + gridDim.x);
}}
"""


def speculate(
    transfer_map: TransferMap, chunk: Chunk, results: Arrays
) -> Callable[[], Found | None] | None:
    """Launch the determination of a chunk from a carry-in of 0; what it returns waits for it.

    Returns
    -------
    callable, ``() -> (AffineSummary, DeviceHead) or None``
        None where the chunk does not forget soon, or a result is not finite or near overflow;
        the results are then of no use. None instead where that is known at once.
    """
    import cupy

    limit = _limit(chunk)
    if not limit:
        return None
    told = cupy.empty(_TOLD + 2 * math.prod(chunk.row_shape), np.float64)
    given = np.zeros((), chunk.dtype), np.array(limit, np.int64)
    run_cached(prepare_speculation, transfer_map, chunk, given, (*results, told))
    wait = fetch(told)
    return lambda: _found(chunk, limit, wait())


def _limit(chunk: Chunk) -> int:
    """The head of a constant coefficient, or the longest of an array; 0 where there is none."""
    s = chunk.operands[0]
    if is_value(s):
        with np.errstate(divide="ignore"):
            bits = -np.log2(np.abs(s.astype(np.float64)).item())
        prefix = SHORTEST
        while prefix * bits < _FORGOTTEN[chunk.dtype.char] and prefix <= chunk.steps:
            prefix *= 2
        return prefix if prefix <= chunk.steps // _SHARE_OF_CONSTANT else 0
    is_row = s.shape == chunk.shape and s.dtype == chunk.dtype and chunk.row_shape == (1, 1)
    most = chunk.steps // _SHARE
    return 1 << most.bit_length() - 1 if is_row and most >= SHORTEST else 0


def prepare_speculation(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays
) -> PreparedLaunches:
    """Compile the launches for chunks of a kind.

    Parameters
    ----------
    transfer_map : TransferMap
    chunk : Chunk
    carry_in : (number, number)
        0, and the head of a constant coefficient or the longest of an array.
    results : (array, array)
        The states, and what is told of the chunk.
    """
    (state, limit), (result, told), s = carry_in, results, chunk.operands[0]
    sizes, is_constant = (np.int64(chunk.steps), np.int64(chunk.shape[2])), is_value(s)
    own = prepare(transfer_map, chunk, (state,), (result,), told=None if is_constant else told)
    layout = replace(_LOOKING, reverse=chunk.reverse)
    text = print_program(
        affine, 1, describe(chunk), layout, ("scans/cuda/forgetting/evidence",), _CARRY_IN,
        prefix="head" if is_constant else "(long long)told->steps",
    )  # fmt: skip
    rows, threads = math.prod(chunk.row_shape), layout.threads
    look = Launch(text, "evidence_kernel", 1, threads, (s, sizes[0], limit, told))
    account = Launch(text, "account_kernel", rows, threads, (result, *sizes, limit, told))
    before = () if is_constant else (look,)
    return PreparedLaunches(*before, *own.launches, account, units=own.units)


def _found(chunk: Chunk, limit: int, told: np.ndarray) -> Found | None:
    s, (steps, growth) = chunk.operands[0], told[:2]
    if is_value(s):
        steps, growth = limit, 0.0
        sign = np.sign(s.astype(np.float64).item()) ** chunk.steps
    else:
        is_turned, has_zero = told[2:_TOLD].view(np.uint32)
        sign = 0.0 if has_zero else -1.0 if is_turned else 1.0
    largest, carry_out = told[_TOLD:].reshape(2, *chunk.row_shape)
    top = margins(chunk.dtype).offset_on_gpu
    # What is not finite once stays so to the end.
    if not steps or not ((largest <= top) & (np.abs(carry_out) <= top)).all():
        logger.debug("speculate: %d steps depend on their carry-in; determined again", chunk.steps)
        return None
    exponent = np.full(chunk.row_shape, _VANISHED, np.int64)
    mantissa, growths = (np.full(chunk.row_shape, x) for x in (0.5 * sign, growth))
    summary = AffineSummary(mantissa, exponent, carry_out.astype(chunk.dtype), growths)
    return summary, DevicePrefix(s, _first(chunk, int(steps)), float(growth))


def _first(chunk: Chunk, steps: int) -> Chunk:
    """The first steps of a chunk, in the order of the recurrence.

    Its terms are copied, which the others need not outlive.
    """
    speculate, end = (chunk.steps - steps, chunk.steps) if chunk.reverse else (0, steps)
    first = chunk.between(speculate, end)
    s, t = first.operands
    return replace(first, operands=(s, t if is_value(t) else t.copy()))
