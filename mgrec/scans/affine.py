"""w = s·w + t over a chunk: a summary that neither overflows nor underflows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import frexp, inf, isfinite, isnan, ldexp, nan
from typing import Any

import numpy as np

from ..core.arrays.chunk import Chunk

FINE, REDO, NAN = 0, 1, 2
"""Flags of a row's summary: valid, to be done again from its true carry-in, or ends in nan.

The largest flag wins."""

# Up to this many rows, Python's numbers compute the carry-ins: a chunk of one row takes 27 us by
# arrays, and 3.6 us by numbers.
FEW_ROWS = 8


@dataclass(frozen=True)
class AffineSummary:
    """w = s·w + t over a chunk: ``exit = mantissa * 2**exponent * entry + offset``.

    The product of the coefficients is scaled, so that it neither overflows nor underflows: a
    large state passes through a product of 1e-400, as it does in the loop.

    Attributes
    ----------
    mantissa, exponent : array (outer, inner), float64 or complex128, and int64
        The product of all coefficients.
    offset : array (outer, inner)
        The carry-out for a carry-in of 0. nan where an operand is nan: so is the carry-out then.
    growth : array (outer, inner), float64
        log2 of the largest product of the first i coefficients, i = 0, 1, ...: whether a carry-in
        overflows on its way. The loop then never returns to a finite number, whatever the
        product of all coefficients is.
    redo : dict, (outer, inner) -> Chunk
        Rows with an infinite operand or an offset near overflow: the loop depends on every
        step. Their operands travel along, and they are done again from their true carry-ins.
    """

    mantissa: np.ndarray
    exponent: np.ndarray
    offset: np.ndarray
    growth: np.ndarray
    redo: dict[tuple[int, int], Chunk] = field(default_factory=dict)

    def __reduce__(self) -> Any:
        """One row travels as numbers: workers wait for it, and four arrays take 0.1 ms."""
        if self.offset.size != 1 or self.redo:
            return AffineSummary, (
                self.mantissa, self.exponent, self.offset, self.growth, self.redo
            )  # fmt: skip
        numbers = [x.item() for x in (self.mantissa, self.exponent, self.offset, self.growth)]
        return _of_one_row, (self.offset.dtype.char, self.offset.shape, *numbers)


def _of_one_row(
    char: str, shape: tuple[int, ...], mantissa: complex, exponent: int, offset: complex,
    growth: float,
) -> AffineSummary:  # fmt: skip
    dtype = np.dtype(char)
    wide = np.complex128 if dtype.kind == "c" else np.float64
    return AffineSummary(
        np.full(shape, mantissa, wide),
        np.full(shape, exponent, np.int64),
        np.full(shape, offset, dtype),
        np.full(shape, growth),
    )


def propagate_affine(summary: AffineSummary, carry_in: np.ndarray) -> np.ndarray:
    """The carry-outs of all rows but those in ``summary.redo``.

    A row overflows if |carry-in| * 2**growth exceeds the largest number of the dtype: offsets
    that could decide otherwise are in ``redo``.
    """
    dtype = summary.offset.dtype
    wide: Any = np.complex128 if dtype.kind == "c" else np.float64
    largest = float(np.finfo(dtype).max)
    with np.errstate(all="ignore"):
        # Scaled as well: a mantissa within 2**±500 times a carry-in of any size may overflow.
        unit, shift = _frexp(summary.mantissa)
        state, more = _frexp(carry_in.astype(wide))
        scaled = unit * state
        exponent = np.clip(summary.exponent + shift + more, -4400, 4400).astype(np.int32)
        carry_out = (_ldexp(scaled, exponent) + summary.offset).astype(dtype)
        most = _most(summary.growth, largest)
        # A chunk that meets nan ends in it, whether or not the state overflowed before.
        overflows = np.isfinite(carry_in) & (_magnitude(carry_in) > most) & ~np.isnan(carry_out)
        lost = np.where(summary.mantissa == 0, np.nan, scaled * np.inf)
        if dtype.kind == "c":
            lost = np.full_like(lost, complex(np.nan, np.nan))
        return np.where(overflows, lost, carry_out).astype(dtype)


def are_short(summaries: Sequence[Any]) -> bool:
    """Whether :func:`propagate_short` takes them: real rows, few, none to be done again."""
    return all(
        isinstance(each, AffineSummary)
        and not each.redo
        and each.offset.dtype.kind == "f"
        and 0 < each.offset.size <= FEW_ROWS
        for each in summaries
    )


def propagate_short(summaries: Sequence[AffineSummary], carry_in: np.ndarray) -> list[np.ndarray]:
    """The carry-outs of chunks one after the other, each as by `propagate_affine`, bit by bit."""
    if not summaries:
        return []
    first = summaries[0].offset
    entries = np.broadcast_to(carry_in, first.shape).ravel().tolist()
    parts = ("mantissa", "exponent", "offset", "growth")
    mantissa, exponent, offset, growth = (
        np.stack([getattr(each, part).ravel() for each in summaries], axis=1) for part in parts
    )
    largest = float(np.finfo(first.dtype).max)
    with np.errstate(all="ignore"):
        unit, shift = _frexp(mantissa)
        most = _most(growth, largest)
        rows = zip(
            entries, unit.tolist(), (exponent + shift).tolist(), offset.tolist(), most.tolist(),
            strict=True,
        )  # fmt: skip
        carry_outs = np.array([list(_carry_outs(first.dtype, *row)) for row in rows], first.dtype)
    return [carry_outs[:, k].reshape(first.shape) for k in range(len(summaries))]


def _carry_outs(
    dtype: np.dtype[Any], carry_in: float, units: list[float], exponents: list[int],
    offsets: list[float], mosts: list[float],
) -> Iterator[float]:  # fmt: skip
    """Of one row, chunk by chunk."""
    rounded, is_narrow = dtype.type, dtype.itemsize < 8
    for unit, exponent, offset, most in zip(units, exponents, offsets, mosts, strict=True):
        state, more = frexp(carry_in)
        scaled = unit * state
        try:
            carry_out = ldexp(scaled, min(max(exponent + more, -4400), 4400)) + offset
        except OverflowError:
            carry_out = (inf if scaled > 0 else -inf) + offset
        carry_out = float(rounded(carry_out)) if is_narrow else carry_out
        if abs(carry_in) > most and isfinite(carry_in) and not isnan(carry_out):
            carry_out = nan if unit == 0 else scaled * inf
        carry_in = carry_out
        yield carry_out


def _most(growth: np.ndarray, largest: float) -> np.ndarray:
    """The largest carry-in that does not overflow: largest * 2**-growth, which may underflow."""
    whole = np.minimum(np.floor(growth), 4400)
    return np.ldexp(largest * np.exp2(whole - growth), -whole.astype(np.int32))


def _frexp(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values scaled to a magnitude from 1/2 to 1, and the exponents of the scales."""
    _, exponent = np.frexp(_magnitude(values))
    return _ldexp(values, -exponent), exponent


def _ldexp(values: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "c":
        return np.ldexp(values.real, exponent) + 1j * np.ldexp(values.imag, exponent)
    return np.ldexp(values, exponent)


def _magnitude(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "c":
        return np.maximum(np.abs(values.real), np.abs(values.imag))
    return np.abs(values)
