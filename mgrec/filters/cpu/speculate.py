"""Chunks of filters that forget: filtered from states of 0, which gives their summary as well.

A filter is linear: the response of silence to the true states is added afterwards, until it is
below the rounding errors of the outputs.
"""

from __future__ import annotations

import numpy as np

from ...core.arrays.chunk import Chunk
from ..cascade import Cascade
from ..prefix import FilterPrefix
from ..summary import CascadeSummary
from . import one_thread as cpu

# A response that is this much smaller than the outputs is below their rounding errors.
NEGLIGIBLE = 2.0**-75
PIECE = 4096


def speculate(
    cascade: Cascade, chunk: Chunk, results: tuple[np.ndarray, ...]
) -> tuple[CascadeSummary, FilterPrefix] | None:
    """Filter a chunk from states of 0; None where outputs are near overflow."""
    (result,) = results
    outcome = cpu.determine_filter(cascade, chunk, cpu.at_rest(cascade, chunk), result)
    if outcome.redo.any():
        return None
    pieces = 2 + int(cascade.decay) // PIECE
    first = result[:, : pieces * PIECE].copy()
    return CascadeSummary(cascade, chunk.steps, outcome.carry_out), FilterPrefix(cascade, first)


def correct(
    prefix: FilterPrefix, carry_in: np.ndarray, results: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, ...]:
    """Add the response to the states before a chunk.

    The outputs of the head are written over; where the response is longer, as in silence, all
    are copied first. So it may run twice.
    """
    (given,) = results
    outputs, carry_in = prefix.outputs, np.ascontiguousarray(carry_in)
    target = given
    for speculate in range(0, given.shape[1], PIECE):
        if speculate >= outputs.shape[1] and target is given:
            target = given.copy()
            outputs = given
        before = outputs[:, speculate : speculate + PIECE]
        response, carry_in = response_of(prefix.cascade, carry_in, before)
        with np.errstate(all="ignore"):
            target[:, speculate : speculate + before.shape[1]] = before + response
        if is_negligible(response, before):
            break
    return (target,)


def response_of(
    cascade: Cascade, carry_in: np.ndarray, like: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The outputs of silence after some states, and the states after it."""
    silence = Chunk((np.zeros(like.shape, carry_in.dtype),), like.shape, carry_in.dtype)
    response = np.empty(like.shape, carry_in.dtype)
    return response, cpu.determine_filter(cascade, silence, carry_in, response).carry_out


def is_negligible(response: np.ndarray, outputs: np.ndarray) -> bool:
    """Whether the response of every row is below the rounding errors of its outputs."""
    largest = np.abs(response).max(axis=1)
    return bool((largest <= NEGLIGIBLE * np.abs(outputs).max(axis=1)).all())
