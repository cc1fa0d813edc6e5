"""Solutions of state space models of CuPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...engines.cuda.launches import Launch, LaunchByAddress, PreparedLaunches, Slot
from ...scans.matrix.cuda.segments import Operand, Pass, Solver, print_pass
from ..arguments import MATRICES, Model
from ..results import KalmanFilter, KalmanSmoother

_FLOAT64 = np.dtype(np.float64)
_UNROLLED = 4
"""Most states whose loops are unrolled."""
_CONSTANT = ("design", "obs_cov", "transition", "state_cov")
"""Matrices that are constant if there is a steady state."""
_STATES = ("filtered_state", "filtered_state_cov", "predicted_state", "predicted_state_cov")


def filter_pass(
    n: int, p: int, operands: Sequence[Operand], dtype: Any, square_root: bool = False
) -> Pass:
    """Return the pass over operands MATRICES that writes results of a dtype."""
    varies = any(operands[MATRICES.index(name)][1][2] for name in _CONSTANT)
    is_constant = not (square_root or varies)
    constants = (("OBSERVED", p), ("CONSTANT", is_constant), ("SQUARE_ROOT", square_root))
    unrolled = _unrolled(p, square_root)
    text = print_pass(
        "statespace/cuda/filter", n, unrolled, constants, dtype, dtype, skips_first=True
    )
    return Pass(text, 3 * n * n + 2 * n + 2, n + n * n, enters="spread", repairs=True)


@lru_cache(maxsize=256)
def prepare_ends(solved: Pass, words: int, rows: int, device: int) -> LaunchByAddress:
    """Return the launch of ``ends_kernel`` of the filter, for its struct and an array."""
    arguments = Slot(0, (words,), np.dtype(np.int64), None), Slot(1)
    launch = Launch(solved.text, "ends_kernel", -(-rows // 32), 32, arguments)
    return LaunchByAddress(PreparedLaunches(launch))


def smoother_pass(
    n: int, p: int, dtype: Any, writes_sums: bool = False, square_root: bool = False
) -> Pass:
    """Return the pass that writes smoothed states of a dtype, or r and N before each step."""
    constants = (("OBSERVED", p), ("WRITES_SUMS", writes_sums), ("SQUARE_ROOT", square_root))
    text = print_pass(
        "statespace/cuda/smoother", n, _unrolled(p, square_root), constants, dtype, enters=True
    )
    enters = "spread_back" if square_root else ""
    return Pass(text, 2 * n * n + n + 1, n + n * n, directions=("spread_back",), enters=enters)


def _unrolled(p: int, square_root: bool) -> int:
    """Return the most states whose loops are unrolled; arrays of roots also have p columns."""
    return 0 if square_root and p > _UNROLLED else _UNROLLED


class _Solver(Solver):
    """The passes over a model, and its operands."""

    def __init__(self, model: Model) -> None:
        super().__init__(model.shape, model.axis)
        self.model, self.n = model, model.n
        self.operands = [self.operand(model.arrays[name], model.numbers(name)) for name in MATRICES]
        self.initial = [
            self.state(model.initial_state, 1), self.state(model.initial_state_cov, 2)
        ]  # fmt: skip
        self.marks = self.operand(model.marks, (), np.uint8)

    def filter(self, wanted: tuple[str, ...], dtype: Any) -> dict[str, Any]:
        """Return llf, and the other results of KalmanFilter that are wanted."""
        n = self.n
        numbers: dict[str, tuple[int, ...]] = {"llf_obs": ()}
        numbers |= {name: (n, n) if name.endswith("cov") else (n,) for name in _STATES}
        results = {name: self.empty(dtype, *numbers[name]) for name in wanted}
        solved = filter_pass(n, self.model.p, self.operands, dtype, self.model.square_root)
        operands = [*self.operands, *self.initial, self.marks]
        llf = self.solve(solved, operands, [results.get(name) for name in numbers], sums=True)
        return {"llf": llf, **results}

    def smooth(self, filtered: dict[str, Any], writes_sums: bool = False) -> list[Any]:
        """Return mean and covariance of the smoothed states, or r and N before each step."""
        model, n = self.model, self.n
        dtype = _FLOAT64 if writes_sums else model.dtype
        results = [self.empty(dtype, n), self.empty(dtype, n, n)]
        solved = smoother_pass(n, model.p, dtype, writes_sums, model.square_root)
        predicted = [filtered[name].reshape(*self.shape, -1) for name in _STATES[2:]]
        operands = [*self.operands[:5], self.operands[6], self.laid_out(None), self.marks]
        self.solve(solved, [*operands, *map(self.laid_out, predicted)], results)
        return results


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


def predicted_and_sums(model: Model) -> list[Any]:
    """Return the predicted states and their covariances, and r and N before each step."""
    solver = _Solver(model)
    filtered = solver.filter(_STATES[2:], _FLOAT64)
    return [*[filtered[name] for name in _STATES[2:]], *solver.smooth(filtered, writes_sums=True)]
