"""Filter columns of integers in either direction, and write some of the outputs.

Samples are read in their own dtype, and outputs are written in that of the results. Integers need
no check for overflow if the response of the filter is bounded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...engines.cpu.compilation import compile_kernel, writable
from ..cascade import Cascade
from .scipy_loops import COLUMNS, step_of_columns


def _filter_columns(
    x: Any, x_row: int, x_left: int, direction: int, steps: int, y: Any, y_row: int, y_left: int,
    wait: int, step: int, states: Any, b: Any, a: Any,
) -> None:  # fmt: skip
    """Filter `steps` rows of x from `x_row` on; write to y after `wait` steps, at each `step`."""
    count = states.shape[2]
    row, value = np.empty(COLUMNS), np.empty(COLUMNS)
    for _ in range(steps):
        source = x[x_row, x_left : x_left + count]
        for j in range(count):
            row[j] = source[j]
        step_of_columns(row, value, states, b, a, count)
        if wait == 0:
            target = y[y_row, y_left : y_left + count]
            for j in range(count):
                target[j] = row[j]
            y_row += direction
            wait = step
        wait -= 1
        x_row += direction


_kernel = compile_kernel(_filter_columns)


class ColumnFilter:
    """A filter of `count` columns with its states, at most COLUMNS."""

    def __init__(self, cascade: Cascade, count: int) -> None:
        self.cascade = cascade
        # The last state of each section is 0.
        self.states = np.zeros((len(cascade.sections), cascade.order + 1, count))

    def start(self, states: np.ndarray, samples: np.ndarray) -> None:
        """Set the states to those for samples that have been constant."""
        shape = len(self.cascade.sections), self.cascade.order, 1
        self.states[:, :-1] = states.reshape(shape) * samples.astype(np.float64)

    def run(
        self, x: np.ndarray, x_row: int, x_left: int, steps: int, y: np.ndarray, y_row: int = 0,
        y_left: int = 0, direction: int = 1, wait: int = 0, step: int = 1,
    ) -> None:  # fmt: skip
        """Filter `steps` rows of x (steps, columns), upwards if `direction` is -1.

        Outputs are written to y after `wait` rows, and then of every `step`-th one.
        """
        b, a = self.cascade.float64_coefficients
        _kernel(
            writable(x),
            x_row,
            x_left,
            direction,
            steps,
            y,
            y_row,
            y_left,
            wait,
            step,
            self.states,
            b,
            a,
        )
