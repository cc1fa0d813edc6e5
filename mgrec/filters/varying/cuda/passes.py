"""Filters whose coefficients vary in time, of CuPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core.arrays.chunk import move_axis
from ....engines.cuda.device import on_device
from ....scans.matrix.cuda.segments import Pass, Solver, print_pass

_SMALL = 4
"""Largest order whose maps a thread summarises alone."""
_UNROLLED = 16


def solve_on_gpu(
    b: Any, a: Any, x: Any, axis: int, zi: Any, marks: Any, dtype: Any, out: tuple[Any, ...]
) -> Any:
    """Return the outputs, and the states after them if there are states `zi`."""
    import cupy

    solver, taps, poles = Solver(x.shape, axis), b.shape[-1], a.shape[-1]
    order = max(taps, poles) - 1
    before = np.zeros(order) if zi is None else move_axis(zi, axis, -1)
    is_narrow = all(array.dtype == np.float32 for array in (b, a, x))
    read = np.dtype(np.float32 if is_narrow else np.float64)
    operands = [
        solver.operand(b, (taps,), read),
        solver.operand(a, (poles,), read),
        solver.operand(x, (), read),
        solver.state(before, 1),
        solver.operand(marks, (), np.uint8),
    ]
    y = out[0] if out else solver.empty(dtype)
    last = None
    if zi is not None:
        rows = (*x.shape[:axis], *x.shape[axis + 1 :], order)
        last = cupy.empty(rows, np.float64)
        last[...] = on_device(before)
    is_small = int(order <= _SMALL)
    flags = {"ALGEBRA": 0, "REVERSE": 0, "SUMMARY_LANES": is_small, "TAPS": taps, "POLES": poles}
    text = print_pass(
        "filters/varying/cuda/filter", order, _UNROLLED, tuple(flags.items()), dtype, read
    )
    numbers = (order + 1) * order + order + 1
    solved = Pass(text, numbers, order, order + 1, summary_lanes=is_small)
    solver.solve(solved, operands, [y, last])
    return y if last is None else (y, move_axis(last.astype(dtype), -1, axis))
