"""Filters along the slow axis: all columns of a step side by side, in SciPy's order."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...engines.cpu.compilation import compile_kernel
from .plain import MASK, copy_states

# Columns whose states stay in the L1 cache together with a line of inputs and outputs.
COLUMNS = 256


def _filter_columns(
    x: Any, y: Any, states: Any, b: Any, a: Any, top: Any, redo: Any, write: bool
) -> None:
    """states (sections, order, outer, inner) are advanced, results written where `write`."""
    sections, order = states.shape[:2]
    is_paired = sections > 1  # SciPy adds in another order then
    line, value = np.empty(COLUMNS), np.empty(COLUMNS)
    bits, largest = line.view(np.int64), np.empty(COLUMNS, np.int64)
    z = np.empty((sections, order + 1, COLUMNS))
    for o in range(x.shape[0]):
        for left in range(0, x.shape[2], COLUMNS):
            count = min(COLUMNS, x.shape[2] - left)
            largest[:] = 0
            z[:, order] = 0
            for s in range(sections):
                copy_states(states[s, :, o, left : left + count], z[s, :order, :count])
            for n in range(x.shape[1]):
                source = x[o, n, left : left + count]
                for j in range(count):
                    line[j] = source[j]
                for s in range(sections):
                    state, b0 = z[s], b[s, 0]
                    for j in range(count):
                        value[j] = line[j]
                        line[j] = state[0, j] + b0 * line[j]
                    for k in range(order):
                        here, after = state[k], state[k + 1]
                        bk, ak = b[s, k + 1], a[s, (k + 1) % a.shape[1]]
                        if a.shape[1] == 1:
                            for j in range(count):
                                here[j] = after[j] + bk * value[j]
                        elif is_paired:
                            for j in range(count):
                                here[j] = (bk * value[j] - ak * line[j]) + after[j]
                        else:
                            for j in range(count):
                                here[j] = (after[j] + bk * value[j]) - ak * line[j]
                for j in range(count):
                    largest[j] = max(largest[j], bits[j] & MASK)
                if write:
                    target = y[o, n, left : left + count]
                    for j in range(count):
                        target[j] = line[j]
            for s in range(sections):
                copy_states(z[s, :order, :count], states[s, :, o, left : left + count])
            for j in range(count):
                redo[o, left + j] = largest[j] > top


filter_columns = compile_kernel(_filter_columns)
