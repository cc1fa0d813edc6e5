"""Which loop filters real numbers in float64: by columns, short rows, blocks, or sections."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ...engines.cpu.compilation import writable
from ..blocks import BLOCK, block_noise, block_table
from ..cascade import Cascade
from .columns import filter_columns
from .copied import section_copied
from .pipeline import pipeline_copied, pipeline_rows
from .plain import short_rows
from .rows import BLOCKS, FORWARD, STEPS, section_rows, unrolled

# The largest block_noise of a section that goes by blocks. block_noise leaves out that the table's
# rounding shifts the poles: resonances near 0.05 of noise 1.7 to 1.9 had 3 to 13 times the errors
# of SciPy's lfilter, and all filters of noise below 1 up to 3.4 times.
NOISE = 1.2
WIDE = 8  # columns that go side by side, or more
# The plain loop takes shorter rows: blocks bring nothing there.
LONG = 64
# The plain loop computes larger results: its order of operations decides what overflows.
TOP = {"f": 2.0**120, "d": 2.0**1000}
# Filters whose tables are cached, 1 to 5 KB each.
_FILTERS = 1024


@dataclass(frozen=True)
class Outcome:
    """The states after a chunk, and the rows that the plain loop must do, or has done.

    Attributes
    ----------
    carry_out : array (states, outer, inner), float64 or complex128
    redo : array (outer, inner) of bool
    """

    carry_out: np.ndarray
    redo: np.ndarray


def filter_real(
    cascade: Cascade, x: np.ndarray, carry_in: np.ndarray, result: Any, dtype: Any, reverse: bool
) -> Outcome:
    """Real numbers by the fastest loop; nothing is written where `result` is None."""
    write = result is not None
    target = result if write else np.empty((1, 1, 1), dtype)
    states = np.array(carry_in, np.float64, order="C")
    redo = np.zeros(states.shape[1:], bool)
    top = np.float64(TOP[dtype.char]).view(np.int64)
    x = writable(x)
    if reverse:
        x, target = x[:, ::-1], target[:, ::-1] if write else target
    if x.shape[2] >= WIDE or x.shape[1] < LONG:
        kernel = filter_columns if x.shape[2] >= WIDE else short_rows
        shape = (len(cascade.sections), cascade.order, *redo.shape)
        kernel(x, target, states.reshape(shape), *cascade.numbers, top, redo, write)
    elif len(cascade.sections) > 1:
        states = _pipeline(cascade, x, target, states, top, redo, write)
    else:
        _section(cascade, x, target, states, top, redo, write)
    return Outcome(states, redo)


def _section(
    cascade: Cascade, x: Any, target: Any, states: Any, top: Any, redo: Any, write: bool
) -> None:
    (section,) = cascade.sections
    kind, table = _kind(cascade)
    b, a = (part[0] for part in cascade.numbers)
    order = unrolled(kind, section.order)
    if x.dtype == target.dtype and _is_straight(x) and (not write or _is_straight(target)):
        views = x[:, :, 0], target[:, :, 0] if write else None, states[:, :, 0]
        kernel = section_rows(kind, order, x.dtype == np.float64, write)
        kernel(*views, b, a, table, top, redo[:, 0])
    else:
        kernel = section_copied(kind, order)
        kernel(*_lines(x, target), states, b, a, table, top, redo, write)


def _is_straight(x: np.ndarray) -> bool:
    """Contiguous rows."""
    return x.shape[2] == 1 and x.flags.c_contiguous


def _lines(x: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Contiguous rows as arrays (outer, steps), which are copied twice as fast."""
    if x.shape[2] == target.shape[2] == 1 and x.flags.c_contiguous and target.flags.c_contiguous:
        return x[:, :, 0], target[:, :, 0]
    return x, target


@lru_cache(maxsize=_FILTERS)
def _kind(cascade: Cascade) -> tuple[str, np.ndarray]:
    (section,) = cascade.sections
    if section.is_feed_forward:
        return FORWARD, np.zeros(0)
    if section.order <= BLOCK and block_noise(section) <= NOISE:
        return BLOCKS, block_table(section)
    return STEPS, np.zeros(0)


def _pipeline(
    cascade: Cascade, x: Any, target: Any, states: Any, top: Any, redo: Any, write: bool
) -> np.ndarray:
    width, b, a, table = _lanes(cascade)
    count, groups = len(cascade.sections), len(b)
    # Sections that pass their input on pad the front, so that the last section is the last lane.
    z = np.zeros((groups * width, 2, *redo.shape))
    z[groups * width - count :] = states.reshape(count, 2, *redo.shape)
    grouped = z.reshape(groups, width, 2, *redo.shape).swapaxes(1, 2).copy()
    if groups == 1 and _is_straight(x) and (not write or _is_straight(target)):
        views = x[:, :, 0], target[:, :, 0] if write else None
        pipeline_rows(width, write)(*views, grouped, b, a, table, top, redo)
    else:
        pipeline_copied(width)(*_lines(x, target), grouped, b, a, table, top, redo, write)
    z = grouped.swapaxes(1, 2).reshape(z.shape)
    return z[groups * width - count :].reshape(states.shape)


@lru_cache(maxsize=_FILTERS)
def _lanes(cascade: Cascade) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """Lanes, b and a (groups, lanes, 3), and each group's registers, the last section first."""
    b, a = cascade.numbers
    width = 4 if len(b) <= 4 else 8
    front = np.tile([1.0, 0.0, 0.0], (-len(b) % width, 1))
    b, a = (np.concatenate([front, part]).reshape(-1, width, 3) for part in (b, a))
    table = np.concatenate([b.swapaxes(1, 2), -a.swapaxes(1, 2)[:, 1:]], 1)[:, :, ::-1]
    return width, b, a, table.reshape(len(b), -1).copy()
