"""Extension of rows beyond their ends, over chunks.

A row of n samples is extended by a period: 2n samples for "reflect", 2n − 2 for "mirror" and n
for "wrap"; or by a constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .kernels import ExponentialSum

SYNONYMS = {
    "reflect": "reflect",
    "grid-mirror": "reflect",
    "mirror": "mirror",
    "nearest": "nearest",
    "constant": "constant",
    "grid-constant": "constant",
    "wrap": "wrap",
    "grid-wrap": "wrap",
}
"""Modes of ``scipy.ndimage`` for filters."""
SPLINE_MODES = {
    "mirror": "mirror",
    "constant": "mirror",
    "grid-constant": "mirror",
    "wrap": "mirror",
    "reflect": "reflect",
    "grid-mirror": "reflect",
    "nearest": "reflect",
    "grid-wrap": "wrap",
}
"""Modes of ``scipy.ndimage`` for splines, which extends the coefficients and not the samples."""

# Parts of a chunk that its neighbours need. FIRST is Σ_j p^j·x[j], where the first sample is the
# nearest; LAST is the same from the other end. Without its end sample, or that sample alone:
FIRST, LAST = ("first", 0), ("last", 0)
FIRST_INNER, LAST_INNER = ("first", 1), ("last", 1)
FIRST_SAMPLE, LAST_SAMPLE = ("first sample", 0), ("last sample", 0)
Part = tuple[str, int]

_OPPOSITE = {
    FIRST: LAST,
    LAST: FIRST,
    FIRST_INNER: LAST_INNER,
    LAST_INNER: FIRST_INNER,
    FIRST_SAMPLE: LAST_SAMPLE,
    LAST_SAMPLE: FIRST_SAMPLE,
}


def state_before(
    kernel: ExponentialSum, lengths: Sequence[int], chunk: int, mode: str, cval: float
) -> tuple[dict[tuple[int, Part], np.ndarray], np.ndarray]:
    """Return the state before a chunk as weights of parts of chunks, and a constant.

    The state of a pole p is Σ_j p^j·x[−1 − j] over the samples before the chunk.
    """
    weights: dict[tuple[int, Part], np.ndarray] = {}
    zero = np.zeros(len(kernel.poles), complex)
    distance, poles = 0, np.array(kernel.poles)

    def add(source: int, part: Part, factor: Any = 1.0) -> None:
        key = source, part
        weights[key] = weights.get(key, zero) + kernel.power(distance) * factor

    for source in range(chunk - 1, -1, -1):
        if distance >= kernel.reach:
            return weights, zero
        add(source, LAST)
        distance += lengths[source]
    if mode == "constant":
        return weights, kernel.power(distance) * cval / (1 - poles)
    if mode == "nearest":
        add(0, FIRST_SAMPLE, 1 / (1 - poles))
        return weights, zero
    parts = list(_period(lengths, mode))
    factor = 1 / (1 - kernel.power(sum(length for *_, length in parts)))
    for source, part, length in parts:
        if distance >= kernel.reach:
            break
        add(source, part, factor)
        distance += length
    return weights, zero


def state_after(
    kernel: ExponentialSum, lengths: Sequence[int], chunk: int, mode: str, cval: float
) -> tuple[dict[tuple[int, Part], np.ndarray], np.ndarray]:
    """Return the state after a chunk, Σ_j p^j·x[j] over the samples after it."""
    last = len(lengths) - 1
    weights, constant = state_before(kernel, lengths[::-1], last - chunk, mode, cval)
    opposite = {(last - k, _OPPOSITE[part]): value for (k, part), value in weights.items()}
    return opposite, constant


def _period(lengths: Sequence[int], mode: str) -> Iterator[tuple[int, Part, int]]:
    """Yield chunk, part and length of one period before the first sample, nearest first."""
    last = len(lengths) - 1
    if mode == "wrap":
        for k in range(last, -1, -1):
            yield k, LAST, lengths[k]
        return
    skipped = 1 if mode == "mirror" and sum(lengths) > 1 else 0
    yield 0, ("first", skipped), lengths[0] - skipped
    for k in range(1, last + 1):
        yield k, FIRST, lengths[k]
    yield last, ("last", skipped), lengths[last] - skipped
    for k in range(last - 1, -1, -1):
        yield k, LAST, lengths[k]


def extended_positions(positions: np.ndarray, length: int, mode: str) -> np.ndarray:
    """Return the sample of a row at each position, which may be outside; −1 for the constant."""
    if mode == "nearest":
        return np.clip(positions, 0, length - 1)
    if mode == "constant":
        return np.where((positions >= 0) & (positions < length), positions, -1)
    if mode == "wrap":
        return positions % length
    if mode == "mirror" and length > 1:
        period = 2 * length - 2
        inside = positions % period
        return np.minimum(inside, period - inside)
    inside = positions % (2 * length)
    return np.minimum(inside, 2 * length - 1 - inside)
