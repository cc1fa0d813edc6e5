"""Solutions of state space models of CuPy arrays, and the phases of a chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ...core.arrays.array_types import to_host
from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import Kernels
from ...engines.cuda.device import fetch, on_device
from ...engines.cuda.launches import Launch, LaunchByAddress, PreparedLaunches, Slot
from ...scans.matrix.cuda.segments import Operand, Pass, Solver, print_pass
from ..arguments import MATRICES, StateSpaceModel
from ..recurrence import (
    FilterSummary,
    KalmanFilter,
    KalmanSmoother,
    SmootherSummary,
    StateSpaceRecurrence,
    triangular_root,
)

_FLOAT64 = np.dtype(np.float64)
_UNROLLED = 4
"""Most states whose loops are unrolled."""
_CONSTANT = ("design", "obs_cov", "transition", "state_cov")
"""Matrices that are constant if there is a steady state."""
_STATES = ("filtered_state", "filtered_state_cov", "predicted_state", "predicted_state_cov")
_FILTERED = 7
"""Number of matrices among the operands of the filter."""
_LATER_ROOT = 6
"""Index of the root after the chunk among the operands of the smoother."""


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk; its summary is propagated on the CPU."""
    return Kernels(determine, precompute, retain_maps=retain_maps)


def determine(recurrence: StateSpaceRecurrence, chunk: Chunk, carry_in: np.ndarray, result: Any) -> None:
    """Write the results of every step to `result` (outer, steps, inner, numbers).

    It may also be a dict of arrays in the order of the pass.
    """
    is_split = isinstance(result, dict)
    if not is_split and result.size == 0:
        return
    n, solver = recurrence.n, Solver(chunk.shape, 1)
    if recurrence.is_smoother:
        states, roots = np.split(carry_in, [n + n * n], axis=-1)
        dtype = recurrence.result_dtype
        parts = list(result.values()) if is_split else [solver.empty(dtype, k) for k in (n, n * n)]
        solved = smoother_pass(n, recurrence.p, dtype, recurrence.phase == "sums", recurrence.square_root)
        operands = _of_smoother(recurrence, chunk, solver)
        maps = solver.maps_of(chunk, solved, operands, [None, None])
        if recurrence.square_root:
            later_root = on_device(np.ascontiguousarray(roots))[:, None]
            operands[_LATER_ROOT] = solver.laid_out(later_root)
        states = states.reshape(-1, n + n * n)
        solver.solve(solved, operands, parts, after=states, maps=maps)
        if not is_split:
            _join(parts, result)
        return
    operands, solved = _of_filter(recurrence, chunk, solver, carry_in)
    maps = solver.maps_of(chunk, solved, operands, [None] * 6)
    if recurrence.phase == "llf":
        solver.solve(solved, operands, [result, *[None] * 4], sums=True, maps=maps)
        return
    if is_split:
        llf_obs, *arrays = result.values()
        arrays = arrays if recurrence.phase == "filter" else [None, None, *arrays]
        solver.solve(solved, operands, [llf_obs, *arrays], sums=True, maps=maps)
        return
    llf_obs, *predicted = [solver.empty(result.dtype, size) for size in (1, n, n * n)]
    filtered = [None, None]
    if recurrence.phase == "filter":
        filtered = [solver.empty(result.dtype, size) for size in (n, n * n)]
    parts = [*filtered, *predicted]
    solver.solve(solved, operands, [llf_obs, *parts], sums=True, maps=maps)
    _join([part for part in (llf_obs, *parts[2:], *parts[:2]) if part is not None], result)


def retain_maps(recurrence: StateSpaceRecurrence, chunk: Chunk) -> None:
    """Launch the maps of a chunk, for `determine` alone."""
    _launch_maps(recurrence, chunk, Solver(chunk.shape, 1))


def _launch_maps(
    recurrence: StateSpaceRecurrence, chunk: Chunk, solver: Solver
) -> tuple[Any, list[Operand], Pass]:
    """Launch the maps of a chunk; return those of rows, the operands and the pass."""
    if recurrence.is_smoother:
        operands, arrays = _of_smoother(recurrence, chunk, solver), [None] * 2
        solved = smoother_pass(recurrence.n, recurrence.p, _FLOAT64, square_root=recurrence.square_root)
    else:
        (operands, solved), arrays = _of_filter(recurrence, chunk, solver, None), [None] * 6
    return solver.maps(solved, operands, arrays, chunk.kept).of_rows, operands, solved


def precompute(recurrence: StateSpaceRecurrence, chunk: Chunk) -> Callable[[], Any]:
    """Launch the summary of a chunk; the returned function waits for it."""
    n, solver, rows = recurrence.n, Solver(chunk.shape, 1), chunk.row_shape
    of_rows, operands, solved = _launch_maps(recurrence, chunk, solver)
    wait_for_maps = fetch(of_rows)
    if recurrence.is_smoother:
        waits_for_roots = [fetch(root.copy(order="C")) for root in _roots(recurrence, chunk)]
        return lambda: SmootherSummary(
            *_split(wait_for_maps(), rows, n, (2, 1, 2))[0],
            *(fetched().reshape(*rows, n, n) for fetched in waits_for_roots),
        )
    wait_for_ends = _launch_ends(recurrence, chunk, solver, operands, solved)

    def wait() -> FilterSummary:
        (A, a, P, eta, J, is_reset), (growth,) = _split(wait_for_maps(), rows, n, (2, 1, 2, 1, 2))
        if not chunk.steps:
            return FilterSummary([], A, a, P, eta, J, is_reset)
        first, (T, c, Q) = wait_for_ends()
        T, Q = (matrix.reshape(*matrix.shape[:-1], n, n) for matrix in (T, Q))
        # The map leads to the last filtered state, the summary to the state predicted from it.
        if recurrence.square_root:
            S = T @ P
            Q = np.broadcast_to(Q, S.shape)
            covariance = triangular_root(np.concatenate([S, Q], axis=-1))
        else:
            covariance = T @ P @ T.swapaxes(-1, -2) + 0.5 * (Q + Q.swapaxes(-1, -2))
        return FilterSummary(
            first,
            T @ A,
            (T @ a[..., None])[..., 0] + c,
            covariance,
            eta,
            J,
            is_reset,
            chunk.map_arrays(to_host, chunk.shape) if np.isinf(growth).any() else None,
        )

    return wait


def _launch_ends(
    recurrence: StateSpaceRecurrence, chunk: Chunk, solver: Solver, operands: list[Operand], solved: Pass
) -> Callable[[], tuple[list[np.ndarray], list[np.ndarray]]]:
    """Fetch the operands of the first step (outer, 1, inner, numbers), and of the last transition.

    By one kernel and one copy: a copy of each operand took 70 us of the host's time.
    """
    import cupy

    n, p, (outer, inner) = recurrence.n, recurrence.p, chunk.row_shape
    transition, marked = [n * n, n, n * n], [1, n + n * n]
    sizes = [p, p * n, p, p * p, *transition, *transition, *marked]
    ends = cupy.empty((outer * inner, sum(sizes)), np.float64)
    words = solver.words(operands, [None] * 6, (1, chunk.steps), (True, True))
    if ends.size and chunk.steps:
        prepare_ends(solved, len(words), len(ends), cupy.cuda.runtime.getDevice())([words, ends.data.ptr])
    wait = fetch(ends)

    def split_ends() -> tuple[list[np.ndarray], list[np.ndarray]]:
        parts = np.split(wait().reshape(outer, inner, -1), np.cumsum(sizes)[:-1], axis=-1)
        first = [part[:, None] for part in (*parts[:_FILTERED], *parts[_FILTERED + 3 :])]
        first[_FILTERED] = first[_FILTERED].astype(np.uint8)
        return first[: len(chunk.operands)], parts[_FILTERED : _FILTERED + 3]

    return split_ends


def _of_filter(
    recurrence: StateSpaceRecurrence, chunk: Chunk, solver: Solver, carry_in: Any
) -> tuple[list[Operand], Pass]:
    """Return the operands of the filter and its pass; without a carry-in, of the summary."""
    import cupy

    n, (*matrices,) = recurrence.n, map(on_device, chunk.operands)
    marks, initial = matrices[_FILTERED:] or (None, None)
    operands = [solver.laid_out(array) for array in matrices[:_FILTERED]]
    if carry_in is not None:
        states = on_device(carry_in)[:, None]
        # A second step has the states at marks.
        initial = (
            states
            if marks is None
            else cupy.concatenate([states, cupy.broadcast_to(initial, states.shape)], axis=1)
        )
    parts = (None, None) if initial is None else (initial[..., :n], initial[..., n:])
    dtype = np.dtype(np.float64)
    solved = filter_pass(n, recurrence.p, operands, dtype, recurrence.square_root)
    return [*operands, *map(solver.laid_out, (*parts, marks))], solved


def _of_smoother(recurrence: StateSpaceRecurrence, chunk: Chunk, solver: Solver) -> list[Operand]:
    """Return the operands of the smoother; the last are the predicted means and covariances.

    The root of the state after the chunk, in square-root form, is left out.
    """
    *predicted, arrays = _predicted(recurrence, [*map(on_device, chunk.operands)])
    count = recurrence.smoothed - 1
    marks = arrays[count] if len(arrays) > count else None
    state_root = arrays[5] if recurrence.square_root else None
    matrices = *arrays[:5], state_root, None
    return [solver.laid_out(array) for array in (*matrices, marks, *predicted)]


def _predicted(recurrence: StateSpaceRecurrence, operands: Sequence[Any]) -> tuple[Any, ...]:
    """Return means and covariances of predicted states, and the other operands of the smoother."""
    if recurrence.is_divided:
        return operands[0], operands[1], operands[2:]
    n, (filtered, *others) = recurrence.n, operands
    return filtered[..., 1 : 1 + n], filtered[..., 1 + n : 1 + n + n * n], others


def _roots(recurrence: StateSpaceRecurrence, chunk: Chunk) -> list[Any]:
    """Return the first and the next root of a chunk of the smoother in square-root form."""
    import cupy

    if not recurrence.square_root or not chunk.steps:
        return []
    n, (outer, inner) = recurrence.n, chunk.row_shape
    *last_predicted, others = _predicted(recurrence, chunk.between(chunk.steps - 1, chunk.steps).operands)
    *arrays, state_root = others[: recurrence.smoothed - 1]
    # The next root is that of a second step: the filter has the bits of the smoother.
    last = Chunk((*arrays, cupy.zeros((1, 1, 1, n)), state_root), (outer, 2, inner), chunk.dtype)
    filter_recurrence = replace(recurrence, phase="predict", numbers=1 + n + n * n)
    last_states = cupy.concatenate([part[:, 0] for part in last_predicted], axis=-1)
    states = cupy.broadcast_to(last_states, (outer, inner, n + n * n))
    result = cupy.empty((outer, 2, inner, filter_recurrence.numbers), np.float64)
    determine(filter_recurrence, last, states, result)
    _, covariances, _ = _predicted(recurrence, chunk.operands)
    return [covariances[:, 0], result[:, 1, :, 1 + n :]]


def _join(parts: list[Any], result: Any) -> None:
    """Write arrays to parts of the numbers of each step."""
    start = 0
    for part in parts:
        stop = start + part.shape[-1]
        result[..., start:stop] = part
        start = stop


def _split(
    maps: np.ndarray, rows: tuple[int, int], n: int, ndims: Sequence[int]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the vectors and matrices of maps, whether a sequence starts in each, and the rest."""
    parts, start = list[np.ndarray](), 0
    for ndim in ndims:
        stop = start + n**ndim
        parts.append(maps[:, start:stop].reshape(*rows, *(n,) * ndim))
        start = stop
    starts, *others = maps[:, start:].T
    return [*parts, (starts != 0).reshape(rows)], others


def filter_pass(n: int, p: int, operands: Sequence[Operand], dtype: Any, square_root: bool = False) -> Pass:
    """Return the pass over operands MATRICES that writes results of a dtype."""
    varies = any(operands[MATRICES.index(name)][1][2] for name in _CONSTANT)
    is_constant = not (square_root or varies)
    constants = (("OBSERVED", p), ("CONSTANT", is_constant), ("SQUARE_ROOT", square_root))
    unrolled = _unrolled(p, square_root)
    text = print_pass("statespace/cuda/filter", n, unrolled, constants, dtype, dtype, skips_first=True)
    return Pass(text, 3 * n * n + 2 * n + 2, n + n * n, enters="spread", repair_lanes=1)


@lru_cache(maxsize=256)
def prepare_ends(solved: Pass, words: int, rows: int, device: int) -> LaunchByAddress:
    """Return the launch of ``ends_kernel`` of the filter, for its struct and an array."""
    arguments = Slot(0, (words,), np.dtype(np.int64), None), Slot(1)
    launch = Launch(solved.text, "ends_kernel", -(-rows // 32), 32, arguments)
    return LaunchByAddress(PreparedLaunches(launch))


def smoother_pass(n: int, p: int, dtype: Any, writes_sums: bool = False, square_root: bool = False) -> Pass:
    """Return the pass that writes smoothed states of a dtype, or r and N before each step."""
    constants = (("OBSERVED", p), ("WRITES_SUMS", writes_sums), ("SQUARE_ROOT", square_root))
    text = print_pass("statespace/cuda/smoother", n, _unrolled(p, square_root), constants, dtype, enters=True)
    enters = "spread_back" if square_root else ""
    return Pass(text, 2 * n * n + n + 1, n + n * n, directions=("spread_back",), enters=enters)


def _unrolled(p: int, square_root: bool) -> int:
    """Return the most states whose loops are unrolled; arrays of roots also have p columns."""
    return 0 if square_root and p > _UNROLLED else _UNROLLED


class _Solver(Solver):
    """The passes over a model, and its operands."""

    def __init__(self, model: StateSpaceModel) -> None:
        super().__init__(model.shape, model.axis)
        self.model, self.n = model, model.n
        self.operands = [self.operand(model.arrays[name], model.numbers(name)) for name in MATRICES]
        self.initial = [self.state(model.initial_state, 1), self.state(model.initial_state_cov, 2)]
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
        sizes = zip(_STATES[2:], (n, n * n), strict=True)
        predicted = [filtered[name].reshape(*self.shape, size) for name, size in sizes]
        operands = [*self.operands[:5], self.operands[6], self.laid_out(None), self.marks]
        self.solve(solved, [*operands, *map(self.laid_out, predicted)], results)
        return results


def kalman_filter(model: StateSpaceModel) -> KalmanFilter[Any]:
    """Return the result of :func:`mgrec.statespace.kalman_filter`."""
    return KalmanFilter(**_Solver(model).filter(("llf_obs", *_STATES), model.dtype))


def log_likelihood(model: StateSpaceModel) -> Any:
    """Return the log-likelihood of each row."""
    return _Solver(model).filter((), _FLOAT64)["llf"]


def kalman_smoother(model: StateSpaceModel) -> KalmanSmoother[Any]:
    """Return the result of :func:`mgrec.statespace.kalman_smoother`."""
    solver = _Solver(model)
    filtered = solver.filter(_STATES[2:], _FLOAT64)
    return KalmanSmoother(filtered["llf"], *solver.smooth(filtered))


def predicted_and_sums(model: StateSpaceModel) -> list[Any]:
    """Return the predicted states and their covariances, and r and N before each step."""
    solver = _Solver(model)
    filtered = solver.filter(_STATES[2:], _FLOAT64)
    return [*[filtered[name] for name in _STATES[2:]], *solver.smooth(filtered, writes_sums=True)]
