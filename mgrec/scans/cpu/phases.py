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
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any

import numpy as np

from ...core.algebra.transfer_map import TransferMap
from ...core.arrays.chunk import Chunk, CoefficientOperand
from ...core.contract.kernels import PreparedSolver, at_once
from ...engines.cpu import scan
from ...engines.cpu.compilation import writable
from ...engines.cpu.scan import ALIGNED, Phases, Piece, pieces_of, solve_by_phases, solve_side_by_side
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
    """Return a solver for chunks of the same shapes and dtypes, on the calling thread."""
    shape, states = chunk.shape, len(carry_in)
    layouts = [_lay_out_like(array) for array in (*_arrays_of(chunk), *carry_in)]
    if shape[2] == 1 and not any(isinstance(operand, CoefficientOperand) for operand in chunk.operands):
        flat = flatten(chunk)
        if not is_long(transfer_map, chunk) or is_direct(flat, chunk):
            return _prepare_rows(transfer_map, chunk, flat, states)
    # Without the arrays, which the solver does not keep.
    like = chunk.map_arrays(lambda array: None, shape)

    def solve(arguments: Sequence[Any], targets: Sequence[Any]) -> None:
        arrays = iter([lay_out(value) for lay_out, value in zip(layouts, arguments, strict=True)])
        laid_out = like.map_arrays(lambda _: next(arrays), shape)
        results = tuple([target.reshape(shape) for target in targets])
        determine(transfer_map, laid_out, tuple(arrays), results)

    return solve


def _prepare_rows(transfer_map: TransferMap, chunk: Chunk, flat: Flat, states: int) -> PreparedSolver:
    """Return the solver for rows whose operands kernels read as they are."""
    row_shape, reverse, sources = chunk.shape[:2], chunk.reverse, flat.sources
    layouts = [*map(_lay_out_like, flat.operands)]
    layouts += [_lay_out_like(np.empty(row_shape[0], chunk.dtype))] * states
    if is_long(transfer_map, chunk):
        lay_out_s, lay_out_t, lay_out_state = layouts

        def solve_affine(arguments: Sequence[Any], targets: Sequence[Any]) -> None:
            s, t, state = arguments
            operands = writable(lay_out_s(s)), writable(lay_out_t(t))
            carry_in = writable(lay_out_state(state))
            determine_direct(Flat(operands, sources), carry_in, targets[0].reshape(row_shape))

        return solve_affine
    kernel = kernel_of(determine_rows, transfer_map, sources, states > 1)

    def solve(arguments: Sequence[Any], targets: Sequence[Any]) -> None:
        arrays = [writable(lay_out(value)) for lay_out, value in zip(layouts, arguments, strict=True)]
        after = tuple([target.reshape(row_shape) for target in targets])
        kernel(tuple(arrays[:-states]), tuple(arrays[-states:]), after, reverse)

    return solve


def _arrays_of(chunk: Chunk) -> Iterator[Any]:
    for operand in chunk.operands:
        yield from operand.operands if isinstance(operand, CoefficientOperand) else (operand,)


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
# Time to summarise a piece, in units of the time to determine it.
COST = 0.95

Arrays = tuple[np.ndarray, ...]


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
        is_divided = outer < threads and (outer == 1 or steps >= threads * scan.SHORT)
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
    # In pieces along the axis each thread reads whole cache lines.
    is_divided = chunk.shape[0] == 1 and chunk.steps >= threads * scan.SHORT
    if is_divided and _solve_side_by_side(_Steps(transfer_map, chunk, results), carry_in, threads):
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
    row = _Steps(transfer_map, chunk, results)
    is_solved = _solve_side_by_side(row, carry_in, threads)
    if is_solved is not None:
        return is_solved
    is_faster = transfer_map.capabilities.composes_cheaply and not (
        threads <= FEW_THREADS and one_thread.is_direct(flatten(chunk), chunk, is_constant=False)
    )
    return (is_faster or threads >= MANY_THREADS) and _solve_by_phases(row, carry_in, threads)


@dataclass(frozen=True)
class _Steps:
    """Consecutive steps of a row, or of columns (outer = 1), with their results."""

    transfer_map: TransferMap
    chunk: Chunk
    results: Arrays

    def piece(self, start: int, stop: int) -> _Steps:
        """Return some steps, counted in array order."""
        results = tuple([result[:, start:stop] for result in self.results])
        return _Steps(self.transfer_map, self.chunk.between(start, stop), results)

    def between(self, start: int, stop: int) -> _Steps:
        """Return some steps, counted in the order of the recurrence."""
        steps = self.chunk.steps
        return self.piece(steps - stop, steps - start) if self.chunk.reverse else self.piece(start, stop)

    def carry_out(self) -> Arrays:
        """Return a copy of the states after the steps."""
        last = 0 if self.chunk.reverse else -1
        return tuple([result[:, last].copy() for result in self.results])

    def determine(self, carry_in: Arrays) -> Arrays:
        """Write the results on the calling thread; return the states after the steps."""
        one_thread.determine(self.transfer_map, self.chunk, carry_in, self.results)
        return self.carry_out()

    @property
    def is_linear(self) -> bool:
        """Whether coefficients determine how fast two states approach each other."""
        return self.transfer_map.redoes_rows_of(self.chunk.dtype)

    def log_product(self) -> float:
        """Return log2 of the product of all coefficients of a row."""
        flat = flatten(self.chunk)
        kernel = kernel_of(log_product, self.transfer_map, flat.sources)
        return float(kernel(flat.operands, self.chunk.steps, self.chunk.reverse))


def _solve_by_phases(row: _Steps, carry_in: Arrays, threads: int) -> bool:
    """Solve one row by the three phases; return whether the row is solved."""
    transfer_map = row.transfer_map
    phases = Phases(
        lambda piece, before: row.piece(*piece).determine(before),
        lambda piece: one_thread.precompute(transfer_map, row.chunk.between(*piece)),
        partial(one_thread.propagate, transfer_map, ()),
    )
    pieces = pieces_of(row.chunk.steps, threads, row.chunk.reverse, COST)
    carry_outs = solve_by_phases(phases, pieces, carry_in)
    return carry_outs is not None and bool(np.isfinite(carry_outs).all())


logger = logging.getLogger("mgrec")
_NOT_CONTRACTIVE = "determine: %d %s depend on their carry-in; determined again"

# At most 1/16 of the columns are determined again one by one.
_COLUMNS_FRACTION = 16
# log2 of how much larger than its results a carry-in may be.
_MARGIN = 10.0


def expected_prefix(piece: _Steps, carry_in: Arrays) -> int:
    """Return the steps after which the first column should not depend on its carry-in.

    The first coefficients or states predict them. Return 0 if they are too many.
    """
    steps, dtype = piece.chunk.steps, piece.chunk.dtype
    count = min(MOST_EVIDENCE, steps // EVIDENCE_FRACTION)
    if count == 0:
        return 0
    chunk = piece.between(0, count).chunk
    if chunk.shape[2] > 1:
        chunk = chunk.map_arrays(lambda array: np.ascontiguousarray(array[..., :1]), (1, count, 1))
    column = replace(piece, chunk=chunk, results=tuple([np.empty(chunk.shape, dtype) for _ in carry_in]))
    if piece.is_linear:
        bits = -column.log_product()
        wanted = _MARGIN - np.log2(np.finfo(dtype).eps)
        prefix = wanted / bits * count if bits > 0 else inf
        return 1 + int(prefix) if prefix <= steps / PREFIX_FRACTION else 0
    # The other state is one that the recurrence reaches itself.
    state = column.determine(tuple([part[:, :1] for part in carry_in]))
    return count if _are_same(state, column.determine(state)).all() else 0


def _are_same(first: Arrays, second: Arrays) -> np.ndarray:
    """Return in which columns two states (1, inner) have the same bits, or both are nan."""
    are_same = np.ones(first[0].size, bool)
    for pair in zip(first, second, strict=True):
        x, y = (part.view(part.real.dtype).reshape(part.size, -1) for part in pair)
        # 0 and -0 are equal, but have different reciprocals.
        is_equal = (x == y) & (np.signbit(x) == np.signbit(y))
        are_same &= (is_equal | (np.isnan(x) & np.isnan(y))).all(1)
    return are_same


def _solve_side_by_side(steps: _Steps, carry_in: Arrays, threads: int) -> bool | None:
    """Determine pieces side by side, then their first steps from the true carry-ins.

    Results of columns have the bits of one thread. Return None if the pieces are not expected to be
    contractive, and False if all must be determined again: a state of a row is not finite, so that
    rounding may have decided whether it overflows, or many columns are not contractive.
    """
    chunk = steps.chunk
    pieces = pieces_of(chunk.steps, threads, chunk.reverse)
    prefix = expected_prefix(steps.piece(*pieces[1]), carry_in)
    if not prefix:
        return None
    provisional = tuple(map(np.zeros_like, carry_in)) if steps.is_linear else carry_in
    is_checked, corrected = steps.is_linear and chunk.shape[2] == 1, 0

    def is_valid(state: Arrays) -> bool:
        return not is_checked or bool(np.isfinite(state).all())

    def join(piece: Piece, before: Arrays, _: Arrays) -> Arrays | None:
        nonlocal corrected
        part = steps.piece(*piece)
        count = _join(part, before, prefix) if is_valid(before) else -1
        corrected += count
        return part.carry_out() if count >= 0 else None

    carry_out = solve_side_by_side(
        lambda piece, before: steps.piece(*piece).determine(before), join, pieces, carry_in, provisional
    )
    if carry_out is None or not is_valid(carry_out):
        return False
    sizes = len(pieces), pieces[0][1] - pieces[0][0]
    logger.debug("determine: %d pieces of %d steps apart, %d steps again", *sizes, corrected)
    return True


def _join(piece: _Steps, carry_in: Arrays, prefix: int) -> int:
    """Determine blocks of a piece from its carry-in until the states meet those of its results.

    The first block has the steps of the expected prefix, and each further one three times those
    before it. Return the number of steps, or -1 if many columns are not contractive.
    """
    chunk, is_linear = piece.chunk, piece.is_linear
    steps, columns = chunk.steps, chunk.shape[2]
    first = max(one_thread.LONG, prefix)
    most = steps if columns == 1 and not is_linear else 2 * steps // PREFIX_FRACTION
    state, bits, stop = carry_in, 0.0, 0
    while stop < most:
        start, stop = stop, min(max(4 * stop, first), most)
        part = piece.between(start, stop)
        existing = part.carry_out()
        state = part.determine(state)
        if is_linear and columns == 1:
            bits += part.log_product()
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
        if stop < steps:
            piece.between(stop, steps).determine(state)
        return steps
    logger.debug(_NOT_CONTRACTIVE, (~are_same).sum(), "columns")
    if are_same.sum() < columns - columns // _COLUMNS_FRACTION:
        return -1
    arguments = piece.transfer_map, chunk, carry_in, piece.results
    for column in np.flatnonzero(~are_same).tolist():
        one_thread.determine_columns(*arguments, column, column + 1)
    return most
