"""The phases of a chunk in host memory, on one thread, or on several for parts of it.

Threads share rows, columns, or the pieces of one row.

A row that is not contractive is solved by the three phases over its pieces. The pieces of a
contractive row are solved side by side, from provisional carry-ins, and their first steps are
corrected. Let A_i be the product of the first i coefficients, w⁰ the solution from a provisional
carry-in x, and e the true carry-in. The ratio of |A_i·(e - x)| to the bound's W_i never grows. Once
it is below the rounding error u·|w⁰_i| at one i, w⁰ is the result from there on. Two states of
other maps have converged once they have the same bits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np

from ...core.algebra.transfer_map import TransferMap
from ...core.arrays.chunk import Chunk, CoefficientOperand
from ...core.contract.kernels import PreparedSolver, at_once
from ...engines.cpu.compilation import writable
from ...engines.cpu.threads import run_in_threads, split_range, threads_for
from ..kernels import ScanKernels, correct
from . import one_thread
from .kernels import determine_rows, kernel_of, log_product
from .one_thread import (
    EVIDENCE_FRACTION,
    MOST_EVIDENCE,
    PREFIX_FRACTION,
    determine,
    determine_direct,
    is_direct,
    is_long,
    precompute,
    propagate,
    speculate,
)
from .operands import Flat, flatten


def kernels(method: str) -> ScanKernels:
    """Return the phases of a chunk, on the calling thread or, for method "threads", on all."""
    return ScanKernels(
        determine_on_threads if method == "threads" else determine,
        at_once(precompute),
        propagate,
        speculate=at_once(speculate),
        correct=partial(correct, determine),
        prepare_solver=prepare_solver,
    )


def prepare_solver(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays
) -> PreparedSolver:
    """Return a solver for chunks of the same shapes and dtypes, on the calling thread.

    The solver takes the chunk's operands, those of coefficients included, with the states before
    the first step, as arrays and numbers; and the results.
    """
    functions = [
        (operand.function, operand.first, len(operand.operands))
        if isinstance(operand, CoefficientOperand)
        else None
        for operand in chunk.operands
    ]
    shape, dtype, reverse, states = chunk.shape, chunk.dtype, chunk.reverse, len(carry_in)
    layouts = [_lay_out_like(array) for array in (*_arrays_of(chunk), *carry_in)]
    is_plain = not any(functions)
    if is_plain and shape[2] == 1:
        flat = flatten(chunk)
        if not is_long(transfer_map, chunk):
            return _prepare_rows(transfer_map, chunk, flat, states)
        if is_direct(flat, chunk):
            return _prepare_direct(flat, shape, dtype)

    def solve(arguments: Sequence[Any], targets: Sequence[Any]) -> None:
        arrays = [lay_out(value) for lay_out, value in zip(layouts, arguments, strict=True)]
        operands = arrays[:-states]
        if not is_plain:
            operands = list(_with_coefficients(functions, iter(operands)))
        laid_out = Chunk(tuple(operands), shape, dtype, reverse)
        results = tuple([target.reshape(shape) for target in targets])
        determine(transfer_map, laid_out, tuple(arrays[-states:]), results)

    return solve


def _prepare_direct(flat: Flat, shape: tuple[int, int, int], dtype: np.dtype[Any]) -> PreparedSolver:
    """Return the solver for rows that kernels solve as they are."""
    row_shape = shape[:2]
    lay_out_s, lay_out_t = map(_lay_out_like, flat.operands)
    lay_out_state = _lay_out_like(np.empty(shape[0], dtype))

    def solve(arguments: Sequence[Any], targets: Sequence[Any]) -> None:
        s, t, state = arguments
        operands = writable(lay_out_s(s)), writable(lay_out_t(t))
        carry_in = writable(lay_out_state(state))
        determine_direct(Flat(operands, flat.sources), carry_in, targets[0].reshape(row_shape))

    return solve


def _prepare_rows(transfer_map: TransferMap, chunk: Chunk, flat: Flat, states: int) -> PreparedSolver:
    """Return the solver for rows that the plain loop solves."""
    row_shape, reverse = chunk.shape[:2], chunk.reverse
    kernel = kernel_of(determine_rows, transfer_map, flat.sources, states > 1)
    layouts = [*map(_lay_out_like, flat.operands)]
    layouts += [_lay_out_like(np.empty(row_shape[0], chunk.dtype))] * states

    def solve(arguments: Sequence[Any], targets: Sequence[Any]) -> None:
        arrays = [writable(lay_out(value)) for lay_out, value in zip(layouts, arguments, strict=True)]
        after = tuple([target.reshape(row_shape) for target in targets])
        kernel(tuple(arrays[:-states]), tuple(arrays[-states:]), after, reverse)

    return solve


def _arrays_of(chunk: Chunk) -> Iterator[Any]:
    for operand in chunk.operands:
        yield from operand.operands if isinstance(operand, CoefficientOperand) else (operand,)


def _with_coefficients(functions: Sequence[Any], arrays: Iterator[Any]) -> Iterator[Any]:
    """Yield the operands of a chunk, which consist of these arrays."""
    for coefficient in functions:
        if coefficient is None:
            yield next(arrays)
        else:
            function, first, count = coefficient
            yield CoefficientOperand(function, first, tuple([next(arrays) for _ in range(count)]))


def _lay_out_like(array: np.ndarray) -> Callable[[Any], np.ndarray]:
    """Return a function that gives a number or an array the shape of `array`."""
    shape, dtype = array.shape, array.dtype

    def lay_out(value: Any) -> np.ndarray:
        if type(value) is np.ndarray and value.ndim:
            return value.reshape(shape)
        return np.full(shape, value, dtype)

    def lay_out_number(value: Any) -> np.ndarray:
        return np.array(value, dtype).reshape(shape)

    return lay_out if array.size > 1 else lay_out_number


# A long row that is not contractive is solved in pieces if composing costs as little as applying,
# or with this many threads: two threads took twice the time of one over a row of Möbius maps.
MANY_THREADS = 8
# One thread solves arrays of coefficients at the speed of the memory, and the three phases read
# them twice: two threads took 0.92 ns a step and one 0.56.
FEW_THREADS = 2
# A thread solves a whole row if its pieces have fewer steps.
SHORT = 512
# This many numbers, of any dtype, fill whole cache lines.
ALIGNED = 64

Arrays = tuple[np.ndarray, ...]
Piece = tuple[int, int]


def determine_on_threads(transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays) -> None:
    """Write the states after every step of a chunk: see :func:`.one_thread.determine`."""
    arguments = transfer_map, chunk, carry_in, results
    threads, (outer, steps, inner) = threads_for(results[0].size), chunk.shape
    if threads == 1:
        one_thread.determine(*arguments)
    elif outer < threads and inner > 1:
        _solve_columns(*arguments, threads)
    else:
        # Few long rows one after the other by all threads; then, side by side, those not divided.
        is_divided = outer < threads and (outer == 1 or steps >= threads * SHORT)
        rows = [_rows(*arguments, *bounds) for bounds in split_range(outer, threads)]
        undivided = [row for row in rows if not (is_divided and _solve_long_row(*row, threads))]
        run_in_threads([partial(one_thread.determine, *row) for row in undivided])


def _rows(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays, *bounds: int
) -> tuple[TransferMap, Chunk, Arrays, Arrays]:
    """Return the arguments for a part of the rows."""
    before = tuple(state[slice(*bounds)] for state in carry_in)
    after = tuple(result[slice(*bounds)] for result in results)
    return transfer_map, chunk.rows(*bounds), before, after


def _solve_columns(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays, threads: int
) -> None:
    if chunk.shape[0] == 1 and chunk.steps >= threads * SHORT:
        # In pieces along the axis each thread reads whole cache lines.
        pieces, targets = _split(chunk, results, _pieces(chunk.steps, threads, chunk.reverse, True))
        prefix = expected_prefix(transfer_map, pieces[1], carry_in)
        if prefix and determine_side_by_side(transfer_map, pieces, carry_in, targets, prefix):
            return
    columns, unit = chunk.shape[2], ALIGNED if chunk.shape[2] >= ALIGNED * threads else 1
    part = partial(one_thread.determine_columns, transfer_map, chunk, carry_in, results)
    ends = split_range(-(-columns // unit), threads)
    run_in_threads([partial(part, a * unit, min(b * unit, columns)) for a, b in ends])


def _solve_long_row(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays, threads: int
) -> bool:
    """Solve one row by its pieces if this is faster; return whether the row is solved.

    It is not where rounding may have decided whether it overflows: the result is that of the loop.
    """
    pieces, targets = _split(chunk, results, _pieces(chunk.steps, threads, chunk.reverse, True))
    prefix = expected_prefix(transfer_map, pieces[1], carry_in)
    if prefix:
        return determine_side_by_side(transfer_map, pieces, carry_in, targets, prefix)
    is_faster = transfer_map.capabilities.composes_cheaply and not (
        threads <= FEW_THREADS and one_thread.is_direct(flatten(chunk), chunk, is_constant=False)
    )
    is_faster = is_faster or threads >= MANY_THREADS
    return is_faster and _solve_by_phases(transfer_map, chunk, carry_in, results, threads)


def _split(chunk: Chunk, results: Arrays, pieces: list[Piece]) -> tuple[list[Chunk], list[Arrays]]:
    parts = [chunk.between(*piece) for piece in pieces]
    return parts, [tuple(result[:, a:b] for result in results) for a, b in pieces]


def _solve_by_phases(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays, threads: int
) -> bool:
    """Solve one row by the three phases; return whether the row is solved.

    The first piece is determined while all others but the last are precomputed; then the others
    are determined side by side. The row is not solved if a piece must be redone: the pieces would
    wait for each other.
    """
    parts, targets = _split(chunk, results, _pieces(chunk.steps, threads, chunk.reverse))

    def determine(k: int, before: Arrays) -> Callable[[], Any]:
        return partial(one_thread.determine, transfer_map, parts[k], before, targets[k])

    middle = [partial(one_thread.precompute, transfer_map, part) for part in parts[1:-1]]
    _, *summaries = run_in_threads([determine(0, carry_in), *middle])
    if any(getattr(summary, "redo", None) for summary in summaries):
        return False
    carry_ins = [_carry_out_of(parts[0], targets[0])]
    for summary in summaries:
        carry_ins.append(one_thread.propagate(transfer_map, (), summary, carry_ins[-1]))
    run_in_threads([determine(k, before) for k, before in enumerate(carry_ins, 1)])
    carry_ins.append(_carry_out_of(chunk, results))
    return all(np.isfinite(state).all() for states in carry_ins for state in states)


def _pieces(steps: int, threads: int, reverse: bool, is_equal: bool = False) -> list[Piece]:
    """Return threads + 1 pieces in the order of the recurrence, or `threads` equal ones.

    The first of threads + 1, which is determined while others are precomputed, has 0.95 of their
    size: `precompute` takes about 0.95 of the time of `determine`.
    """
    first = 0.0 if is_equal else 0.95
    unit = steps / (threads + first)
    ends = [unit * (k + first) for k in range(1 if is_equal else 0, threads)]
    # A piece that starts at a cache line is written past the caches, as a whole row is.
    is_aligned = steps >= ALIGNED * 8 * len(ends)
    bounds = [int(stop) // ALIGNED * ALIGNED if is_aligned else int(stop) for stop in ends]
    pieces = list(pairwise([0, *bounds, steps]))
    return [(steps - b, steps - a) for a, b in pieces] if reverse else pieces


logger = logging.getLogger("mgrec")
_NOT_CONTRACTIVE = "determine: %d %s depend on their carry-in; determined again"

# At most 1/16 of the columns are determined again one by one.
_COLUMNS_FRACTION = 16
# log2 of how much larger than its results a carry-in may be.
_MARGIN = 10.0


def _is_linear(transfer_map: TransferMap, chunk: Chunk) -> bool:
    """Return whether coefficients determine how fast two states approach each other."""
    return transfer_map.redoes_rows_of(chunk.dtype)


def expected_prefix(transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays) -> int:
    """Return the steps after which the first column (outer = 1) should not depend on its carry-in.

    The first coefficients or states predict them. Return 0 if they are too many.
    """
    count = min(MOST_EVIDENCE, chunk.steps // EVIDENCE_FRACTION)
    if count == 0:
        return 0
    column, _ = _between(chunk, (), 0, count)
    if chunk.shape[2] > 1:
        shape = 1, count, 1
        column = column.map_arrays(lambda array: np.ascontiguousarray(array[..., :1]), shape)
    if _is_linear(transfer_map, chunk):
        bits = -_log_product(transfer_map, column)
        wanted = _MARGIN - np.log2(np.finfo(chunk.dtype).eps)
        prefix = wanted / bits * count if bits > 0 else inf
        return 1 + int(prefix) if prefix <= chunk.steps / PREFIX_FRACTION else 0
    # The other state is one that the recurrence reaches itself.
    results = tuple([np.empty(column.shape, chunk.dtype) for _ in carry_in])
    state = _determine(transfer_map, column, tuple([part[:, :1] for part in carry_in]), results)
    are_same = _are_same(state, _determine(transfer_map, column, state, results))
    return count if are_same.all() else 0


def _log_product(transfer_map: TransferMap, chunk: Chunk) -> float:
    """Return log2 of the product of all coefficients of a row."""
    flat = flatten(chunk)
    kernel = kernel_of(log_product, transfer_map, flat.sources)
    return float(kernel(flat.operands, chunk.steps, chunk.reverse))


def _are_same(first: Arrays, second: Arrays) -> np.ndarray:
    """Return in which columns two states (1, inner) have the same bits, or both are nan."""
    are_same = np.ones(first[0].size, bool)
    for pair in zip(first, second, strict=True):
        x, y = (part.view(part.real.dtype).reshape(part.size, -1) for part in pair)
        # 0 and -0 are equal, but have different reciprocals.
        is_equal = (x == y) & (np.signbit(x) == np.signbit(y))
        are_same &= (is_equal | (np.isnan(x) & np.isnan(y))).all(1)
    return are_same


def determine_side_by_side(
    transfer_map: TransferMap, pieces: list[Chunk], carry_in: Arrays, targets: list[Arrays], prefix: int
) -> bool:
    """Determine pieces (outer = 1) side by side, then their first steps from the true carry-ins.

    Results of columns have the bits of one thread. Return False if the whole chunk must be
    determined again: a state of a row is not finite, so that rounding may have decided whether it
    overflows, or many columns are not contractive.
    """
    linear = _is_linear(transfer_map, pieces[0])
    provisional = tuple(map(np.zeros_like, carry_in)) if linear else carry_in

    carry_ins = [carry_in, *[provisional] * (len(pieces) - 1)]
    parts = zip(pieces, carry_ins, targets, strict=True)
    run_in_threads([partial(one_thread.determine, transfer_map, *part) for part in parts])
    is_checked = linear and pieces[0].shape[2] == 1
    corrected, before = 0, _carry_out_of(pieces[0], targets[0])
    for piece, results in zip(pieces[1:], targets[1:], strict=True):
        if is_checked and not np.isfinite(before).all():
            return False
        steps = _join(transfer_map, piece, before, results, prefix)
        if steps < 0:
            return False
        corrected, before = corrected + steps, _carry_out_of(piece, results)
    sizes = len(pieces), pieces[0].steps
    logger.debug("determine: %d pieces of %d steps apart, %d steps again", *sizes, corrected)
    return not is_checked or bool(np.isfinite(before).all())


def _carry_out_of(chunk: Chunk, results: Arrays) -> Arrays:
    """Return a copy of the states after a chunk."""
    last = 0 if chunk.reverse else -1
    return tuple(result[:, last].copy() for result in results)


def _between(chunk: Chunk, results: Arrays, start: int, stop: int) -> tuple[Chunk, Arrays]:
    """Return steps of a chunk, in the order of the recurrence, and their results."""
    if chunk.reverse:
        start, stop = chunk.steps - stop, chunk.steps - start
    return chunk.between(start, stop), tuple([result[:, start:stop] for result in results])


def _determine(transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays) -> Arrays:
    """Determine a chunk on the calling thread; return the states after it."""
    one_thread.determine(transfer_map, chunk, carry_in, results)
    return _carry_out_of(chunk, results)


def _join(transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays, prefix: int) -> int:
    """Determine blocks of a piece from its carry-in until the states meet those of its results.

    The first block has the steps of the expected prefix, and each further one three times those
    before it. Return the number of steps, or -1 if many columns are not contractive.
    """
    steps, columns, is_linear = chunk.steps, chunk.shape[2], _is_linear(transfer_map, chunk)
    first = max(one_thread.LONG, prefix)
    most = steps if columns == 1 and not is_linear else 2 * steps // PREFIX_FRACTION
    state, bits, stop = carry_in, 0.0, 0
    while stop < most:
        start, stop = stop, min(max(4 * stop, first), most)
        part, after = _between(chunk, results, start, stop)
        existing = _carry_out_of(part, after)
        state = _determine(transfer_map, part, state, after)
        if is_linear and columns == 1:
            bits += _log_product(transfer_map, part)
            with np.errstate(over="ignore"):  # in absolute values of complex numbers
                sizes = [np.abs(part[0]).item() for part in (carry_in, existing, state)]
            rounding = sizes[1] * float(np.finfo(chunk.dtype).eps) / 2
            # A state that overflows stays infinite, however small the product becomes.
            if sizes[0] * 2.0 ** min(bits, 1000.0) < rounding and sizes[2] < inf:
                return stop
        are_same = _are_same(state, existing)
        if are_same.all():
            return stop
    if columns == 1:
        logger.debug(_NOT_CONTRACTIVE, steps, "steps")
        remaining, after = _between(chunk, results, stop, steps)
        one_thread.determine(transfer_map, remaining, state, after)
        return steps
    logger.debug(_NOT_CONTRACTIVE, (~are_same).sum(), "columns")
    if are_same.sum() < columns - columns // _COLUMNS_FRACTION:
        return -1
    for column in np.flatnonzero(~are_same).tolist():
        one_thread.determine_columns(transfer_map, chunk, carry_in, results, column, column + 1)
    return most
