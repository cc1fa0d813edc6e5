"""Periodic systems: a line whose two ends meet.

Elimination with pivoting leaves of a whole line its two interface rows, in the unknowns before
it, of its ends and after it. The one before is the last one, the one after is the first: two
equations for the two ends. Nothing is split off the matrix, as by Sherman and Morrison's formula,
whose rest may be singular where the matrix is not.
"""

from __future__ import annotations

import numpy as np

from .singular import SingularSystemError


def ends_of(rows: np.ndarray) -> np.ndarray:
    """The unknowns at and beside the ends of lines that are closed.

    Parameters
    ----------
    rows : array (2, 5, outer, inner)
        Of :class:`.summary.InterfaceRows`, of whole lines.

    Returns
    -------
    array (4, outer, inner)
        The x before the line, its first, its last and the x after it.

    Raises
    ------
    SingularSystemError
        A system is singular.
    """
    first, last, rhs = rows[:, 1] + rows[:, 3], rows[:, 0] + rows[:, 2], rows[:, 4]
    size = np.maximum(abs(first), abs(last))
    most = np.finfo(size.dtype).maxexp - 2
    scale = np.ldexp(np.ones_like(size), np.clip(-np.frexp(size)[1], -most, most))
    first, last, rhs = first * scale, last * scale, rhs * scale
    # Complete pivoting: rows may be exchanged, and the two unknowns.
    is_last_larger = abs(last).max(0) > abs(first).max(0)
    lead = np.where(is_last_larger, last, first)
    rest = np.where(is_last_larger, first, last)
    lead, rest, rhs = _ordered(lead, rest, rhs)
    with np.errstate(all="ignore"):
        factor = lead[1] / lead[0]
        pivot = rest[1] - factor * rest[0]
        other = (rhs[1] - factor * rhs[0]) / pivot
        one = (rhs[0] - rest[0] * other) / lead[0]
    _check(lead[0], pivot)
    x = np.where(is_last_larger, other, one)
    y = np.where(is_last_larger, one, other)
    return np.stack([y, x, y, x])


def _ordered(
    lead: np.ndarray, rest: np.ndarray, rhs: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two equations, that with the larger leading coefficient first."""
    is_swapped = abs(lead[1]) > abs(lead[0])
    lead, rest, rhs = (np.where(is_swapped, part[::-1], part) for part in (lead, rest, rhs))
    return lead, rest, rhs


def _check(*pivots: np.ndarray) -> None:
    # A pivot of 0 leaves nan in the next one, which is none of an operand's.
    is_singular = pivots[0] == 0
    is_singular |= pivots[1] == 0
    if is_singular.any():
        raise SingularSystemError(int(is_singular.argmax()))
