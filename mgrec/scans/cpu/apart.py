"""Solve pieces of a contractive row side by side, then correct their prefixes.

Let A_i be the product of the first i coefficients, w⁰ the solution from a provisional carry-in x
and e the true carry-in. The ratio of |A_i·(e - x)| to the bound's W_i never grows. So once it is
below the rounding error u·|w⁰_i| at one i, w⁰ is the result from there on. Other maps have
converged where two states have the same bits.
"""

from __future__ import annotations

import logging
from math import inf
from typing import Any

import numpy as np

from ...core.algebra.transfer_map import TransferMap
from ...core.arrays.chunk import Chunk
from ...engines.cpu.threads import run_in_threads
from . import one_thread as cpu
from .operands import Flat, flatten
from .prefixes import PrefixKernels, prefix_kernels, rejoin_columns

logger = logging.getLogger("mgrec")

# Steps that are looked at to tell whether a run forgets: at most so many, and so little of it.
_MOST_EVIDENCE, _EVIDENCE_SHARE = 1024, 64
# The head takes four times as long as other steps. It may be expected to be this share of a run,
# and is given up after twice as many steps.
_PREFIX_FRACTION = 8
# Columns that may be determined again one by one.
_FEW_SHARE = 16
# log2 of how much larger than its results a carry-in may be.
_MARGIN = 10.0

Arrays = tuple[np.ndarray, ...]


def is_linear(transfer_map: TransferMap, chunk: Chunk) -> bool:
    """Whether the coefficients tell how fast states come nearer."""
    return transfer_map.redoes_rows_of(chunk.dtype)


def forgets(transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays) -> bool:
    """Return whether the first steps of one row (outer = inner = 1) make it contractive soon."""
    count = min(_MOST_EVIDENCE, chunk.steps // _EVIDENCE_SHARE)
    if count == 0:
        return False
    flat, kernels = _prefix(transfer_map, chunk, carry_in)
    if not is_linear(transfer_map, chunk):
        likes = tuple(np.empty((1, 0), chunk.dtype) for _ in carry_in)
        arguments = (_before(chunk, carry_in), likes, chunk.steps, count, chunk.reverse)
        return bool(kernels.evidence(flat.operands, *arguments))
    bits = -kernels.evidence(flat.operands, chunk.steps, count, chunk.reverse)
    wanted = _MARGIN - np.log2(np.finfo(chunk.dtype).eps)
    return bits == inf or (bits > 0 and wanted / bits * count <= chunk.steps / _PREFIX_FRACTION)


def determine_apart(
    transfer_map: TransferMap, pieces: list[Chunk], carry_in: Arrays, targets: list[Arrays]
) -> bool:
    """Determine pieces (outer = 1) side by side, then their heads from the true carry-ins.

    Columns stand where they have the same bits: they have those of one thread.

    Returns
    -------
    bool
        False where all is to be determined again: a state of a row is not finite, so that rounding
        may have decided whether it overflows, or many columns do not forget.
    """
    linear = is_linear(transfer_map, pieces[0])
    provisional = tuple(map(np.zeros_like, carry_in)) if linear else carry_in

    def determine(k: int) -> Any:
        before = provisional if k else carry_in
        return lambda: cpu.determine(transfer_map, pieces[k], before, targets[k])

    run_in_threads([determine(k) for k in range(len(pieces))])
    join = _join if pieces[0].shape[2] == 1 else _join_columns
    is_checked = linear and join is _join
    prefixes, before = 0, carry_out_of(pieces[0], targets[0])
    for piece, results in zip(pieces[1:], targets[1:], strict=True):
        if is_checked and not np.isfinite(before).all():
            return False
        taken = join(transfer_map, piece, before, results)
        if taken < 0:
            return False
        prefixes, before = prefixes + taken, carry_out_of(piece, results)
    about = len(pieces), pieces[0].steps, prefixes
    logger.debug("determine: %d pieces of %d steps apart, %d steps again", *about)
    return not is_checked or bool(np.isfinite(before).all())


def first_column(chunk: Chunk, carry_in: Arrays) -> tuple[Chunk, Arrays]:
    """The first column of a chunk (outer = 1) as a row."""
    row = chunk.map_arrays(lambda array: array[:1, :, :1], (1, chunk.steps, 1))
    return row, tuple(state[:1, :1] for state in carry_in)


def carry_out_of(chunk: Chunk, results: Arrays) -> Arrays:
    """The states after a run of steps, copied."""
    last = 0 if chunk.reverse else -1
    return tuple(result[:, last].copy() for result in results)


def _prefix(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays
) -> tuple[Flat, PrefixKernels]:
    flat = flatten(chunk)
    linear = is_linear(transfer_map, chunk)
    return flat, prefix_kernels(transfer_map, flat.sources, len(carry_in) > 1, linear)


def _before(chunk: Chunk, carry_in: Arrays) -> Arrays:
    return tuple(np.ascontiguousarray(state[:, 0], chunk.dtype) for state in carry_in)


def _join(transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays) -> int:
    """Determine a row from its carry-in over its provisional results, and count the steps."""
    flat, kernels = _prefix(transfer_map, chunk, carry_in)
    before, after = _before(chunk, carry_in), tuple(result[:, :, 0] for result in results)
    most, apart, unit = chunk.steps, np.full(len(before[0]), inf), 0.0
    if is_linear(transfer_map, chunk):
        most = 2 * chunk.steps // _PREFIX_FRACTION
        apart = np.abs(before[0]).astype(np.float64)
        unit = float(np.finfo(chunk.dtype).eps) / 2
    taken = kernels.rejoin(flat.operands, before, after, most, chunk.reverse, apart, unit)
    if taken >= 0:
        return int(taken)
    logger.debug("determine: %d steps depend on their carry-in; determined again", chunk.steps)
    _determine_rest(transfer_map, chunk, results, most)
    return chunk.steps


def _join_columns(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays
) -> int:
    """The same for columns; -1 where many do not forget."""
    flat, columns = flatten(chunk), chunk.shape[2]
    kernel = rejoin_columns(transfer_map, flat.sources, len(carry_in) > 1)
    most, same = 2 * chunk.steps // _PREFIX_FRACTION, np.zeros(columns, bool)
    before = tuple(np.ascontiguousarray(state, chunk.dtype) for state in carry_in)
    taken = int(kernel(flat.operands, before, results, most, chunk.reverse, same))
    if taken >= 0:
        return taken
    logger.debug("determine: %d columns depend on their carry-in; determined again", (~same).sum())
    if same.sum() < columns - columns // _FEW_SHARE:
        return -1
    for column in np.flatnonzero(~same).tolist():
        cpu.determine_columns(transfer_map, chunk, carry_in, results, column, column + 1)
    return most


def _determine_rest(transfer_map: TransferMap, chunk: Chunk, results: Arrays, done: int) -> None:
    """Determine the steps after those that are done, if there are any."""
    if done == chunk.steps:
        return
    steps, last = chunk.steps, chunk.steps - done if chunk.reverse else done - 1
    begin, end = (0, last) if chunk.reverse else (done, steps)
    state = tuple(result[:, last].copy() for result in results)
    rest = tuple(result[:, begin:end] for result in results)
    cpu.determine(transfer_map, chunk.between(begin, end), state, rest)
