"""Coefficients of many operations, evaluated ahead of a recurrence, and gradients of coefficients.

Within the kernels of a recurrence a multiprocessor runs 7 or 8 warps, too few to hide the latency
of long formulas: 400 operations a step took 6 times as long as in a kernel for evaluation alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...core.algebra.transfer_map import TransferMap
from ...core.arrays.array_types import is_narrow
from ...core.arrays.chunk import Chunk, CoefficientOperand
from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.cpp import ctype, print_definitions
from ...engines.cuda.device import MULTIPROCESSORS, SCRATCH_IS_SHARED, raise_if_capturing
from ...engines.cuda.launches import Launch, LaunchByAddress, PreparedLaunches, Slot, is_value, run_launches
from ...engines.cuda.tracing import state_count
from .program import ScanLayout, Source, describe, is_costly, print_program

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
        transfer_map,
        state_count(transfer_map),
        source,
        ScanLayout(_THREADS, 1),
        (),
        _KERNEL,
        places=places,
        wanted=len(source.costly),
    )


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
    compose: Callable[[TransferMap, Chunk], Callable[[], Any]], transfer_map: TransferMap, chunk: Chunk
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


_PRODUCT_THREADS = 256
_PRODUCT_KERNEL = """
typedef {stored} Stored;
typedef {number} T;
constexpr int N = 16 / sizeof(Stored);
struct alignas(16) Word {{ Stored v[N]; }};
extern "C" __global__ void __launch_bounds__(THREADS) products_kernel(
    const Stored* grad, Stored* adjoint, const Stored* w, Stored* of_s, long long count,
    long long steps, long long inners, long long reverse) {{
  // Elements of a row without a state before them, and those that the recurrence begins with.
  const long long row = steps * inners, bare = reverse ? row - inners : 0;
  const long long begin = reverse ? 0 : count - inners, shift = reverse ? inners : -inners;
  const long long first = (blockIdx.x * (long long)THREADS + threadIdx.x) * N;
  if (first >= count) return;
  const int length = count - first < N ? int(count - first) : N;
  Word factor = {{}}, product;
  if (length == N) factor = *reinterpret_cast<const Word*>(adjoint + first);
  else
    for (int r = 0; r < length; ++r) factor.v[r] = adjoint[first + r];
  if (first + N > begin && first < begin + inners)
    for (int r = 0; r < length; ++r)
      if (first + r >= begin && first + r < begin + inners)
        adjoint[first + r] = factor.v[r] = grad[first + r];
  if (!of_s) return;
  // The place in its row: a division of 64 bits would take as long as the loads.
  long long place = first;
  if (row < count) place = count >> 32 ? first % row : unsigned(first) % unsigned(row);
#pragma unroll
  for (int r = 0; r < N; ++r) {{
    const bool is_bare = (place >= bare && place < bare + inners) || r >= length;
    product.v[r] = is_bare ? Stored(T(0)) : Stored(T(factor.v[r]) * T(w[first + r + shift]));
    if (++place == row) place = 0;
  }}
  if (length == N) *reinterpret_cast<Word*>(of_s + first) = product;
  else
    for (int r = 0; r < length; ++r) of_s[first + r] = product.v[r];
}}
"""


def multiply_by_states(
    shape: tuple[int, int, int],
    dtype: np.dtype[Any],
    device: int,
    reverse: bool,
    grad: int,
    adjoint: int,
    w: int,
    of_s: int,
) -> None:
    """Write the gradients of the coefficients, of contiguous arrays (outer, steps, inner).

    Arguments are addresses on the current device: of the gradient of w, of the adjoint, of w, and
    of the result, or 0. The adjoint recurrence of all rows begins with the gradient at the last
    step of w (at the first one with `reverse`); the kernel copies it to the adjoint of the last
    row (of the first one).
    """
    blocks = -(-prod(shape) * dtype.itemsize // (16 * _PRODUCT_THREADS))
    launch = _prepare(dtype, device, blocks)
    launch([grad, adjoint, w, of_s, prod(shape), shape[1], shape[2], int(reverse)])


@lru_cache(maxsize=256)
def _prepare(dtype: np.dtype[Any], device: int, blocks: int) -> LaunchByAddress:
    return LaunchByAddress(PreparedLaunches(describe_product(dtype, blocks)))


def describe_product(dtype: np.dtype[Any], blocks: int = 1) -> Launch:
    """Return the launch for arrays of a dtype."""
    headers = kernel_text("engines/cuda/numeric")
    number = np.dtype(np.float32) if is_narrow(dtype) else dtype
    text = print_definitions(headers, {"THREADS": _PRODUCT_THREADS})
    text += _PRODUCT_KERNEL.format(stored=ctype(dtype), number=ctype(number))
    word = np.dtype(np.int64)
    arguments = (*map(Slot, range(4)), *(Slot(k, (), word, None) for k in range(4, 8)))
    return Launch(text, "products_kernel", blocks, _PRODUCT_THREADS, arguments)
