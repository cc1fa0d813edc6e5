"""Coefficients of many operations, evaluated before the recurrence, one piece after the other.

Within the kernels of a recurrence a multiprocessor runs 7 or 8 warps, too few to hide the latency
of long formulas: 400 operations a step took 6 times as long as in a kernel for evaluation alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...core.algebra.transfer_map import TransferMap
from ...core.arrays.chunk import Chunk, CoefficientOperand
from ...engines.cuda.device import MULTIPROCESSORS, SCRATCH_IS_SHARED, raise_if_capturing
from ...engines.cuda.launches import Launch, is_value, run_launches
from ...engines.cuda.tracing import state_count
from .program import Layout, print_program
from .sources import Source, describe, is_costly

PIECE = 2**21
"""Elements of a piece: 8 MB of float32, and 30 us or more a launch."""
_THREADS, _BLOCKS = 256, 8 * MULTIPROCESSORS

_KERNEL = """
extern "C" __global__ void __launch_bounds__(THREADS) evaluate_kernel(
    {operands}{values_out}, long long outers, long long steps, long long inners, \
long long first_outer,
    long long first_step, long long run, long long count) {{
  const Source source = {{{fills}}};
  T* const values[] = {{{values}}};
  const int places[] = {{{places}}};
  const long long stride = (long long)gridDim.x * THREADS;
  for (long long k = blockIdx.x * (long long)THREADS + threadIdx.x; k < count; k += stride) {{
    Items items;
    source.complete(items, first_outer + k / inners / run, first_step + k / inners % run,
                    k % inners, outers, steps);
#pragma unroll
    for (int q = 0; q < {wanted}; ++q) values[q][k] = items.v[places[q]][0];
  }}
}}
"""
Arrays = tuple[Any, ...]


class Piece(NamedTuple):
    """Whole rows, or some steps of one row; `begins` says if its first step is that of the row."""

    outers: slice
    steps: slice
    begins: bool


def is_ahead(chunk: Chunk) -> bool:
    """Return whether an operand takes so many operations that it is evaluated ahead."""
    return any(
        isinstance(operand, CoefficientOperand) and is_costly(operand, chunk.dtype)
        for operand in chunk.operands
    )


def pieces(chunk: Chunk) -> Iterator[Piece]:
    """Yield pieces of about PIECE elements, those of a row in time order."""
    outers, steps, inners = chunk.shape
    if steps * inners <= PIECE:
        group = PIECE // (steps * inners)
        for first in range(0, outers, group):
            yield Piece(slice(first, min(first + group, outers)), slice(0, steps), True)
        return
    length = max(PIECE // inners // 16, 1) * 16
    starts = range(0, steps, length)
    for outer in range(outers):
        for number, start in enumerate(reversed(starts) if chunk.reverse else starts):
            part = slice(start, min(start + length, steps))
            yield Piece(slice(outer, outer + 1), part, number == 0)


def evaluated(transfer_map: TransferMap, chunk: Chunk) -> Callable[[Piece], Chunk]:
    """Return a function that returns a piece with arrays of the values of costly coefficients."""
    source = describe(chunk)
    return partial(_evaluate, print_evaluation(transfer_map, source), chunk, source)


def print_evaluation(transfer_map: TransferMap, source: Source) -> str:
    """Print the program that evaluates the costly coefficients of a chunk."""
    places = ", ".join(map(str, source.costly.values()))
    return print_program(
        transfer_map, state_count(transfer_map), source, Layout(_THREADS, 1), (), _KERNEL,
        places=places, wanted=len(source.costly),
    )  # fmt: skip


def _evaluate(text: str, chunk: Chunk, source: Source, piece: Piece) -> Chunk:
    import cupy

    outers, steps = piece.outers, piece.steps
    shape = (outers.stop - outers.start, steps.stop - steps.start, chunk.shape[2])
    values = [cupy.empty(shape, chunk.dtype) for _ in source.costly]
    sizes = (*chunk.shape, outers.start, steps.start, shape[1], values[0].size)
    arguments = (*source.streams, *source.arguments, *values, *map(np.int64, sizes))
    blocks = min(_BLOCKS, -(-values[0].size // _THREADS))
    run_launches(Launch(text, "evaluate_kernel", blocks, _THREADS, arguments))
    part = chunk.rows(outers.start, outers.stop).between(steps.start, steps.stop)
    operands = list(part.operands)
    for k, array in zip(source.costly, values, strict=True):
        operands[k] = array
    return replace(part, operands=tuple(operands))


def determine_in_pieces(
    determine: Callable[[TransferMap, Chunk, Arrays, Arrays], None],
    transfer_map: TransferMap,
    chunk: Chunk,
    carry_in: Arrays,
    results: Arrays,
) -> None:
    """Write the states of a chunk piece after piece."""
    raise_if_capturing("a recurrence with a coefficient of many operations", SCRATCH_IS_SHARED)
    evaluate = evaluated(transfer_map, chunk)
    states = carry_in
    for piece in pieces(chunk):
        targets = tuple(w[piece.outers, piece.steps] for w in results)
        before = tuple([_part(e, piece) for e in carry_in]) if piece.begins else states
        determine(transfer_map, evaluate(piece), before, targets)
        states = tuple(w[:, 0 if chunk.reverse else -1] for w in targets)


def _part(state: Any, piece: Piece) -> Any:
    return state if is_value(state) else state[piece.outers]


def compose_in_pieces(
    compose: Callable[[TransferMap, Chunk], Callable[[], Any]],
    transfer_map: TransferMap,
    chunk: Chunk,
) -> Arrays:
    """Return the composed map of every row; the maps of its pieces are composed on the host."""
    evaluate = evaluated(transfer_map, chunk)
    maps = tuple(np.empty(chunk.row_shape, chunk.dtype) for _ in transfer_map.identity)
    for piece in pieces(chunk):
        composed = compose(transfer_map, evaluate(piece))()
        if not piece.begins:
            with np.errstate(all="ignore"):
                earlier = tuple(part[piece.outers] for part in maps)
                composed = transfer_map.compose(earlier, composed)
        for part, value in zip(maps, composed, strict=True):
            part[piece.outers] = value
    return maps
