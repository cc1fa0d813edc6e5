"""Solutions of state space models of CuPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays.chunk import canonical_shape
from ...scans.matrix.cuda.segments import (
    Pass,
    along_steps,
    print_pass,
    segments_of,
    solve_in_segments,
    words_of_operand,
)
from ..arguments import MATRICES, Model
from ..results import KalmanFilter, KalmanSmoother

_FLOAT64 = np.dtype(np.float64)
_UNROLLED = 4
"""Most states whose loops are unrolled."""
_CONSTANT = ("design", "obs_cov", "transition", "state_cov")
"""Matrices that are constant if there is a steady state."""
_STATES = ("filtered_state", "filtered_state_cov", "predicted_state", "predicted_state_cov")


class _Solver:
    """The operands of a model in the layout of kernels."""

    def __init__(self, model: Model) -> None:
        self.model, self.n, shape, axis = model, model.n, model.shape, model.axis
        self.shape = canonical_shape(shape, axis)
        self.operands = {
            name: self._operand(model.arrays[name], model.numbers(name)) for name in MATRICES
        }
        self.initial = [
            self._operand(along_steps(array, ndim, shape, axis), (self.n,) * ndim)
            for ndim, array in enumerate((model.initial_state, model.initial_state_cov), 1)
        ]
        self.marks = self._operand(model.marks, (), np.uint8)

    def _operand(self, array: Any, numbers: tuple[int, ...], dtype: Any = _FLOAT64) -> Any:
        model = self.model
        return words_of_operand(array, numbers, model.shape, model.axis, dtype)

    def _empty(self, dtype: Any, *numbers: int) -> Any:
        import cupy

        return cupy.empty((*self.model.shape, *numbers), dtype)

    def filter(self, wanted: tuple[str, ...], dtype: Any) -> dict[str, Any]:
        """Return llf, and the other results of KalmanFilter that are wanted."""
        import cupy

        model, n, (outer, steps, inner) = self.model, self.n, self.shape
        numbers: dict[str, tuple[int, ...]] = {"llf_obs": ()}
        numbers |= {name: (n, n) if name.endswith("cov") else (n,) for name in _STATES}
        size = 3 * n * n + 2 * n + 1
        segments = segments_of(outer * inner, steps, 1, size)
        llf = cupy.empty((outer * inner, segments[0]), _FLOAT64)
        results = {name: self._empty(dtype, *numbers[name]) for name in wanted}
        arrays = [llf, *[results.get(name) for name in numbers]]
        is_constant = not any(self.operands[name][1][2] for name in _CONSTANT)
        constants = (("OBSERVED", model.p), ("CONSTANT", is_constant))
        text = print_pass("statespace/cuda/filter", n, _UNROLLED, constants, dtype, dtype)
        operands = [*self.operands.values(), *self.initial, self.marks]
        self._solve(text, size, operands, arrays, "spread")
        rows = model.shape[: model.axis] + model.shape[model.axis + 1 :]
        return {"llf": llf.sum(1).reshape(rows), **results}

    def smooth(self, filtered: dict[str, Any]) -> list[Any]:
        """Return mean and covariance of the smoothed states."""
        model, n = self.model, self.n
        results = [self._empty(model.dtype, n), self._empty(model.dtype, n, n)]
        operands = [*[self.operands[name] for name in MATRICES[:5]], self.marks]
        arrays = [*[filtered[name] for name in _STATES[2:]], *results]
        constants = (("OBSERVED", model.p),)
        text = print_pass("statespace/cuda/smoother", n, _UNROLLED, constants, model.dtype)
        self._solve(text, 2 * n * n + n + 1, operands, arrays, "spread_back")
        return results

    def _solve(
        self, text: str, numbers: int, operands: list[Any], arrays: list[Any], direction: str
    ) -> None:
        words = [word for _, of_operand in operands for word in of_operand]
        words += [0 if array is None else array.data.ptr for array in arrays]
        state_numbers = self.n + self.n * self.n
        solved = Pass(text, len(words) + 5, numbers, state_numbers, directions=(direction,))
        solve_in_segments(solved, self.shape, words)


def kalman_filter(model: Model) -> KalmanFilter:
    """Return the result of :func:`mgrec.statespace.kalman_filter`."""
    return KalmanFilter(**_Solver(model).filter(("llf_obs", *_STATES), model.dtype))


def log_likelihood(model: Model) -> Any:
    """Return the log-likelihood of each row."""
    return _Solver(model).filter((), _FLOAT64)["llf"]


def kalman_smoother(model: Model) -> KalmanSmoother:
    """Return the result of :func:`mgrec.statespace.kalman_smoother`."""
    solver = _Solver(model)
    filtered = solver.filter(_STATES[2:], _FLOAT64)
    return KalmanSmoother(filtered["llf"], *solver.smooth(filtered))
