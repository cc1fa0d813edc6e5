"""The phases of a chunk of CuPy arrays.

The single pass determines a chunk from its carry-in. Another pass composes every row to its
summary. Speculation determines a chunk of w = s·w + t from 0 before its carry-in is known. After
its *prefix* no finite carry-in has an effect: only the prefix is determined again from the true
one. For a coefficient array, of one row, a kernel finds the prefix first, and the single pass does
nothing if there is none: the host does not wait for that. The pass also reads the signs of all
coefficients, which decide whether an infinite carry-in ends as inf, -inf or nan.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ...core.algebra.transfer_map import TransferMap, affine
from ...core.arrays.chunk import Chunk, is_uncopied
from ...core.contract.kernels import PreparedSolver
from ...engines.cuda.device import (
    MULTIPROCESSORS,
    SCRATCH_IS_SHARED,
    Device,
    fetch,
    on_device,
    raise_if_capturing,
)
from ...engines.cuda.launches import (
    Launch,
    LaunchByAddress,
    PreparedLaunches,
    Slot,
    is_value,
    prepare_cached,
    run_cached,
)
from ...engines.cuda.tracing import state_count
from ..kernels import Prefix, ScanKernels, correct
from ..summaries import (
    NAN,
    AffineSummary,
    Maps,
    contractive_summary,
    guarded_affine,
    margins,
    rows_to_redo,
)
from . import p_scheme
from .coefficients import compose_in_pieces, determine_in_pieces, is_ahead, multiply_by_states
from .determine import broadcast_state, prepare, shared_bytes, states_of
from .layouts import choose_precompute
from .program import Layout, Source, describe, print_program

logger = logging.getLogger("mgrec")
Arrays = tuple[Any, ...]


def kernels(method: str) -> ScanKernels:
    """Return the phases of a chunk, determined by the kernels of a method."""
    if method == "p-scheme":
        return ScanKernels(_by_p_scheme, precompute)
    return ScanKernels(
        _in_a_single_pass, precompute, prepare_solver=prepare_solver, speculate=speculate,
        correct=partial(correct, _in_a_single_pass), multiply_by_states=multiply_by_states,
    )  # fmt: skip


def _in_a_single_pass(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays
) -> None:
    if results[0].size:
        solve = partial(run_cached, prepare)
        solve = partial(determine_in_pieces, solve) if is_ahead(chunk) else solve
        solve(transfer_map, chunk, states_of(carry_in, chunk, results[0].dtype), results)


def _by_p_scheme(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays
) -> None:
    if results[0].size:
        raise_if_capturing("method 'p-scheme'", SCRATCH_IS_SHARED)
        chunk = chunk.map_arrays(on_device, chunk.shape)
        states = [broadcast_state(state, chunk) for state in states_of(carry_in, chunk)]
        p_scheme.Phases(transfer_map, chunk, tuple(states), results)()


def prepare_solver(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays
) -> PreparedSolver | None:
    """Return a solver for chunks of the same shapes and dtypes.

    The solver takes addresses of arrays, and numbers: the chunk's operands, those of coefficients
    included, with the states before the first step; and the results. Other values cannot make it
    fail. None if coefficients are evaluated ahead, or states are broadcast to rows.
    """
    states = states_of(carry_in, chunk, results[0].dtype)
    if is_ahead(chunk) or not all(map(is_uncopied, states, carry_in)):
        return None
    bound = LaunchByAddress(prepare_cached(prepare, transfer_map, chunk, states, results))

    def solve(arguments: Sequence[Any], targets: Sequence[int]) -> None:
        bound([*arguments, *targets])

    return solve


_PRECOMPUTE_KERNELS = """
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) precompute_kernel(
    {operands}Span* spans, long long outers, long long steps, long long inners,
    long long pieces) {{
  const Source source = {{{fills}}};
  {call}
}}
extern "C" __global__ void finish_kernel(const Span* spans, {map_out}, long long rows,
                                         long long pieces) {{
  T* const maps[] = {{{map}}};
  finish(spans, rows, pieces, maps);
}}
"""
_ROWS = "precompute_rows(source, spans, outers, steps, pieces);"
_COLUMNS = """const long long count = outers * inners;
  precompute_columns(source, spans,
                     Columns{outers, steps, inners, count, (count + 31) / 32,
                             (steps + STEPS - 1) / STEPS}, pieces);"""


_SPANS = Slot(-1)
"""The spans of the pieces of rows, which one kernel writes and the next one reads."""


def launch_reduction(
    transfer_map: TransferMap, chunk: Chunk, source: Source, layout: Layout, maps: Any
) -> tuple[Launch, Launch, tuple[int, int, int]]:
    """Return the launches that reduce pieces and join the pieces of rows, and the spans' shape."""
    width, states = len(transfer_map.identity), state_count(transfer_map)
    outers, steps, inners = chunk.shape
    rows, groups, tile = outers * inners, outers, layout.threads * layout.items
    if inners > 1:
        groups, tile = -(-rows // 32), layout.threads // 32 * layout.items
    pieces = max(1, min(layout.blocks * MULTIPROCESSORS // groups, -(-steps // tile)))
    kernels = (
        "scans/cuda/trust/calm" if layout.guarded else "scans/cuda/trust/steady",
        "scans/cuda/rows/precompute" if inners == 1 else "scans/cuda/columns/precompute",
    )
    call = _ROWS if inners == 1 else _COLUMNS
    text = print_program(
        transfer_map, states, source, layout, kernels, _PRECOMPUTE_KERNELS, call=call
    )
    join = Launch(
        text, "precompute_kernel", groups * pieces, layout.threads,
        (*source.streams, *source.arguments, _SPANS, *map(np.int64, (*chunk.shape, pieces))),
        shared_bytes(chunk, source, layout, stores=0),
    )  # fmt: skip
    arguments = (_SPANS, *maps, np.int64(rows), np.int64(pieces))
    finish = Launch(text, "finish_kernel", -(-rows // 8), 256, arguments)
    return join, finish, (rows, pieces, max(width, states) * chunk.dtype.itemsize + 16)


def _reserve(*shape: int) -> tuple[Any, ...]:
    import cupy

    return (cupy.empty(shape, cupy.uint8),)


def prepare_precompute(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Any, results: Any,
    layout: Layout | None = None,
) -> PreparedLaunches:  # fmt: skip
    """Compile the launches that write the maps (components, outer, inner), the only result.

    The chunk has at least one step and row, and no carry-in.
    """
    source = describe(chunk)
    width, states = len(transfer_map.identity), state_count(transfer_map)
    layout = layout or choose_precompute(chunk, source, width, states, Device.current())
    is_guarded = chunk.dtype.kind == "f" and transfer_map == guarded_affine(chunk.dtype)
    layout = replace(layout, guarded=is_guarded)
    *launches, spans = launch_reduction(transfer_map, chunk, source, layout, results[0])
    return PreparedLaunches(*launches, reserve=partial(_reserve, *spans))


def compose(transfer_map: TransferMap, chunk: Chunk) -> Callable[[], Maps]:
    """Launch the composition of every row of a chunk; the returned function waits for the maps."""
    import cupy

    if is_ahead(chunk):
        composed = compose_in_pieces(compose, transfer_map, chunk)
        return lambda: composed
    maps = cupy.empty((len(transfer_map.identity), *chunk.row_shape), chunk.dtype)
    run_cached(prepare_precompute, transfer_map, chunk, (), (maps,))
    wait = fetch(maps)
    return lambda: tuple(wait())


def precompute(transfer_map: TransferMap, chunk: Chunk) -> Callable[[], AffineSummary | Maps]:
    """Launch the summary of a chunk of CuPy arrays on the current device, and host scalars.

    The returned function waits for the summary, in host memory.
    """
    chunk = chunk.map_arrays(on_device, chunk.shape)
    if not transfer_map.redoes_rows_of(chunk.dtype):
        return compose(transfer_map, chunk)
    composed = compose(guarded_affine(chunk.dtype), chunk)
    return lambda: _summary_of(chunk, composed())


def _summary_of(chunk: Chunk, maps: Maps) -> AffineSummary:
    mantissa, _, offset, *_ = maps
    _, exponent, _, growth, more, _, _, flag = (part.real for part in maps)
    offset[flag == NAN] = np.nan
    wide = np.result_type(chunk.dtype, np.float64)
    with np.errstate(all="ignore"):
        # Beyond ±2**40 no state remains, and rows with such a growth are redone.
        known = np.where(exponent == exponent, exponent, 0).astype(np.float64)
        exponents = np.minimum(np.maximum(known, -(2.0**40)), 2.0**40)
        return AffineSummary(
            mantissa.astype(wide),
            exponents.astype(np.int64),
            offset,
            np.log2(growth.astype(np.float64)) + more,
            rows_to_redo(chunk, flag),
        )


SHORTEST = 4096
"""Steps of the shortest prefix; longer ones are this times a power of two."""
_PREFIX_FRACTION, _CONSTANT_PREFIX_FRACTION = 256, 8
"""A prefix is at most 1/256 of a chunk with a coefficient array, for which a block takes 0.4 ns a
step to find it, and at most 1/8 with a constant coefficient."""
_RANGE_BITS = {"f": 279, "d": 2100}
"""log2 of the largest number divided by the smallest, plus 2: as ``FORGOTTEN`` of the kernels."""
_OUTCOME_SIZE = 3
"""Numbers of ``struct Told``; those of the rows follow."""
_LAYOUT = Layout(1024, 4)

_EVIDENCE_KERNELS = """
extern "C" __global__ void __launch_bounds__(THREADS) evidence_kernel(
    const T* s, long long steps, long long most, Told* told) {{
  find_head(s, steps, most, told);
}}
extern "C" __global__ void __launch_bounds__(THREADS) account_kernel(
    const T* results, long long steps, long long inners, long long head, Told* told) {{
  double* const largest_of = reinterpret_cast<double*>(told + 1);
  take_account(results, steps, inners, {prefix_steps}, largest_of, largest_of + gridDim.x);
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

    limit = _longest_prefix(chunk)
    if not limit:
        return None
    outcome = cupy.empty(_OUTCOME_SIZE + 2 * math.prod(chunk.row_shape), np.float64)
    carry_in = np.zeros((), chunk.dtype), np.array(limit, np.int64)
    run_cached(prepare_speculation, transfer_map, chunk, carry_in, (*results, outcome))
    wait = fetch(outcome)
    return lambda: _read_outcome(chunk, limit, wait())


def _longest_prefix(chunk: Chunk) -> int:
    """Return the prefix for a constant coefficient, or the longest one for an array; 0 if none."""
    s = chunk.operands[0]
    if is_value(s):
        with np.errstate(divide="ignore"):
            bits = -np.log2(np.abs(s.astype(np.float64)).item())
        prefix = SHORTEST
        while prefix * bits < _RANGE_BITS[chunk.dtype.char] and prefix <= chunk.steps:
            prefix *= 2
        return prefix if prefix <= chunk.steps // _CONSTANT_PREFIX_FRACTION else 0
    is_row = s.shape == chunk.shape and s.dtype == chunk.dtype and chunk.row_shape == (1, 1)
    most = chunk.steps // _PREFIX_FRACTION
    return 1 << most.bit_length() - 1 if is_row and most >= SHORTEST else 0


def prepare_speculation(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays
) -> PreparedLaunches:
    """Compile the launches of a speculation.

    `carry_in` is 0, and the result of :func:`_longest_prefix`; `results` are the states, and the
    numbers of ``struct Told`` and of the rows.
    """
    (state, limit), (result, outcome), s = carry_in, results, chunk.operands[0]
    sizes, is_constant = (np.int64(chunk.steps), np.int64(chunk.shape[2])), is_value(s)
    watched = None if is_constant else outcome
    single_pass = prepare(transfer_map, chunk, (state,), (result,), outcome=watched)
    layout = replace(_LAYOUT, reverse=chunk.reverse)
    text = print_program(
        affine, 1, describe(chunk), layout, ("scans/cuda/evidence",), _EVIDENCE_KERNELS,
        prefix_steps="head" if is_constant else "(long long)told->steps",
    )  # fmt: skip
    rows, threads = math.prod(chunk.row_shape), layout.threads
    find = Launch(text, "evidence_kernel", 1, threads, (s, sizes[0], limit, outcome))
    account = Launch(text, "account_kernel", rows, threads, (result, *sizes, limit, outcome))
    before = () if is_constant else (find,)
    return PreparedLaunches(*before, *single_pass.launches, account, units=single_pass.units)


def _read_outcome(
    chunk: Chunk, limit: int, outcome: np.ndarray
) -> tuple[AffineSummary, Prefix] | None:
    s, (steps, growth) = chunk.operands[0], outcome[:2]
    if is_value(s):
        steps, growth = limit, 0.0
        sign = np.sign(s.astype(np.float64).item()) ** chunk.steps
    else:
        is_negative, has_zero = outcome[2:_OUTCOME_SIZE].view(np.uint32)
        sign = 0.0 if has_zero else -1.0 if is_negative else 1.0
    largest, carry_out = outcome[_OUTCOME_SIZE:].reshape(2, *chunk.row_shape)
    top = margins(chunk.dtype).offset_on_gpu
    # A state that is not finite stays so to the end.
    if not steps or not ((largest <= top) & (np.abs(carry_out) <= top)).all():
        logger.debug("speculate: %d steps depend on their carry-in; determined again", chunk.steps)
        return None
    summary = contractive_summary(sign, carry_out.astype(chunk.dtype), growth)
    return summary, Prefix(s, _first_steps(chunk, int(steps)), float(growth))


def _first_steps(chunk: Chunk, steps: int) -> Chunk:
    """Return the first steps of a chunk in the order of the recurrence, with a copy of their terms.

    The other terms can then be released.
    """
    start, stop = (chunk.steps - steps, chunk.steps) if chunk.reverse else (0, steps)
    first = chunk.between(start, stop)
    s, t = first.operands
    return replace(first, operands=(s, t if is_value(t) else t.copy()))
