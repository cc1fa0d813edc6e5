"""Argument validation of state space models, and the problems of their passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.arrays.array_types import cast, in_one_memory, is_lazy, to_host, without_empty_chunks
from ..core.arrays.chunk import as_contiguous
from ..core.arrays.elements import broadcast_shape, merge_numbers, part_of_numbers
from ..core.arrays.resets import as_reset
from ..core.arrays.validation import as_any_array, as_axis, as_flag
from ..core.backends import common_backend
from ..core.contract.problem import Problem, check_memory
from ..core.contract.scan import initial_states
from ..distributed.groups.calls import CALL
from ..scans.matrix.arguments import along_rows, as_vectors, check_rows, is_in_gpu_memory, result_dtype
from ..solve.functions import apply, broadcast_to, concatenate
from .recurrence import StateSpaceRecurrence, lower_root, state_root

LARGEST = 16
"""Largest number of states, and of entries of an observation."""
_FLOAT64 = np.dtype(np.float64)
MATRICES = ("endog", "design", "obs_intercept", "obs_cov", "transition", "state_intercept", "state_cov")
"""Operands of the filter, in the order of its kernels. `state_cov` includes the selection."""
_OF_STEPS = ("endog", "measurement_shocks", "state_shocks")
"""Arguments that may have one axis, of steps with one number each."""
_VECTORS = (
    "endog",
    "obs_intercept",
    "state_intercept",
    "initial_state",
    "measurement_shocks",
    "state_shocks",
)

PARAMETERS = (
    "design",
    "obs_cov",
    "transition",
    "state_cov",
    "initial_state",
    "initial_state_cov",
    "selection",
    "obs_intercept",
    "state_intercept",
)
"""Arguments whose axes are not those of the data."""


@dataclass(frozen=True)
class StateSpaceModel:
    """The validated arguments of a function of :mod:`mgrec.statespace`.

    `arrays`: arrays of MATRICES, whose leading axes broadcast to `shape`.
    `initial_state`, `initial_state_cov`, arrays (..., n) and (..., n, n): their leading axes
      broadcast to the rows.
    `marks`, array of uint8: first steps of sequences besides the first one.
    """

    arrays: dict[str, Any]
    initial_state: Any
    initial_state_cov: Any
    shape: tuple[Any, ...]
    axis: int
    marks: Any
    memory: str
    dtype: np.dtype[Any]
    square_root: bool

    @property
    def n(self) -> int:
        """Number of states."""
        return int(self.arrays["transition"].shape[-1])

    @property
    def p(self) -> int:
        """Number of entries of an observation."""
        return int(self.arrays["endog"].shape[-1])

    @property
    def is_in_gpu_memory(self) -> bool:
        """Whether whole arrays are on one GPU: see :func:`.matrix.arguments.is_in_gpu_memory`."""
        arrays = (*self.arrays.values(), self.initial_state, self.initial_state_cov)
        return is_in_gpu_memory(arrays)

    @property
    def is_part_on_gpu(self) -> bool:
        """Whether the arrays are the part of a rank, on a GPU."""
        return CALL.get() is not None and not common_backend(self.arrays.values()).is_host

    def numbers(self, name: str) -> tuple[int, ...]:
        """Return the shape of one of MATRICES at a step."""
        n, p = self.n, self.p
        return {
            "endog": (p,),
            "design": (p, n),
            "obs_intercept": (p,),
            "obs_cov": (p, p),
            "transition": (n, n),
            "state_intercept": (n,),
            "state_cov": (n, n),
        }[name]


def check_model(
    endog: Any,
    design: Any,
    obs_cov: Any,
    transition: Any,
    state_cov: Any,
    *,
    initial_state: Any,
    initial_state_cov: Any,
    selection: Any = None,
    obs_intercept: Any = None,
    state_intercept: Any = None,
    axis: int = -1,
    reset: Any = None,
    memory: str = "stream",
    square_root: bool = False,
) -> StateSpaceModel:
    """Return the validated arguments; raise if one is invalid."""
    square_root = as_flag("square_root", square_root)
    p, n = sizes_of(design)
    operands = {
        "endog": as_steps("endog", endog, p),
        "design": as_vectors("design", design, (p, n)),
        "obs_cov": as_vectors("obs_cov", obs_cov, (p, p)),
        "transition": as_vectors("transition", transition, (n, n)),
        "initial_state": as_vectors("initial_state", initial_state, (n,)),
        "initial_state_cov": as_vectors("initial_state_cov", initial_state_cov, (n, n)),
    }
    optional, noises = optional_arrays(selection, obs_intercept, state_intercept, p, n)
    operands["state_cov"] = as_vectors("state_cov", state_cov, (noises, noises))
    operands |= optional
    initial = [(name, operands.pop(name)) for name in ("initial_state", "initial_state_cov")]
    data, parameters = [("endog", operands["endog"])], [*operands.items()][1:]
    names = [name for name, _ in parameters]
    operands |= zip(names, in_one_memory(data, parameters, initial), strict=True)
    for name, array in initial:
        check_in_memory(name, array)
    dtype = result_dtype(*operands.values(), *(array for _, array in initial))
    arrays = (_complete_roots if square_root else _complete)(operands, p, n)
    shape = common_shape(arrays)
    axis = as_axis(axis, shape)
    for name, array in initial:
        check_rows(name, leading_axes(name, array), shape, axis)
    marks = None if reset is None else as_reset(reset, shape, axis, False, data)
    everything = [*arrays.values(), *(array for _, array in initial)]
    check_memory(memory)
    mean, covariance = (cast(array, _FLOAT64) for _, array in initial)
    if not is_in_gpu_memory(everything):  # kernels of a GPU read the symmetric part
        mean, covariance = to_host(mean), to_host(covariance)
        covariance = 0.5 * (covariance + covariance.swapaxes(-1, -2))
    if square_root:
        covariance = lower_root(covariance, dict(initial)["initial_state_cov"].dtype)
    return StateSpaceModel(arrays, mean, covariance, shape, axis, marks, memory, dtype, square_root)


def as_steps(name: str, value: Any, size: int) -> Any:
    """Return an array (..., steps, size); an array of one axis has one number a step."""
    array = as_any_array(name, value)
    if array.ndim == 1 and size > 1:
        raise ValueError(
            f"{name} must have an axis of steps and one of {size} entries; got shape {array.shape}"
        )
    return as_vectors(name, array[:, None] if array.ndim == size == 1 else value, (size,))


def sizes_of(design: Any) -> tuple[int, int]:
    """Return the numbers of entries of an observation and of states."""
    array = as_any_array("design", design)
    if array.ndim < 2:
        raise ValueError(f"design must have shape (..., observations, states); got {array.shape}")
    p, n = map(int, array.shape[-2:])
    if not (1 <= p <= LARGEST and 1 <= n <= LARGEST):
        raise ValueError(f"design must have 1 to {LARGEST} observations and states; got {p} and {n}")
    return p, n


def optional_arrays(
    selection: Any, obs_intercept: Any, state_intercept: Any, p: int, n: int
) -> tuple[dict[str, Any], int]:
    """Return those of these arguments that are not None, and the number of noises of a state."""
    arrays, noises = dict[str, Any](), n
    if selection is not None:
        selected = as_any_array("selection", selection)
        if selected.ndim < 2:
            raise ValueError(f"selection must have shape (..., states, noises); got {selected.shape}")
        noises = selected.shape[-1]
        arrays["selection"] = as_vectors("selection", selection, (n, noises))
    for name, value, size in (("obs_intercept", obs_intercept, p), ("state_intercept", state_intercept, n)):
        if value is not None:
            arrays[name] = as_vectors(name, value, (size,))
    return arrays, noises


def check_in_memory(name: str, array: Any) -> None:
    """Raise TypeError if an initial state is a Dask array."""
    if is_lazy(array):
        raise TypeError(f"{name} must be in memory; got a Dask array: compute it first")


def _complete(arguments: dict[str, Any], p: int, n: int) -> dict[str, Any]:
    """Return arrays of MATRICES, with intercepts of 0, and the selection in `state_cov`."""
    arrays = dict(arguments)
    selection = arrays.pop("selection", None)
    if selection is not None:
        # CuPy (14.2) multiplies no matrices of negative strides.
        selection, covariance = (
            array if is_lazy(array) else as_contiguous(array)
            for array in (cast(selection, _FLOAT64), cast(arrays["state_cov"], _FLOAT64))
        )
        covariance = np.matmul(selection, covariance)
        arrays["state_cov"] = np.matmul(covariance, selection.swapaxes(-1, -2))
    return _with_intercepts(arrays, p, n)


def _complete_roots(arguments: dict[str, Any], p: int, n: int) -> dict[str, Any]:
    """Return arrays of MATRICES with square roots of covariances."""
    arrays = dict(arguments)
    selection = arrays.pop("selection", None)
    noises = [arrays["state_cov"]] if selection is None else [arrays["state_cov"], selection]
    noises = list(map(without_empty_chunks, noises))
    # Letters of their own: the axes of a matrix may have different chunks.
    signature = "(p,q)->(w)" if selection is None else "(p,q),(n,r)->(w)"
    roots = apply(_flat_state_root, signature, n * n, *noises)
    arrays["state_cov"] = part_of_numbers(roots, (n, n))
    roots = apply(_flat_root, "(p,q)->(w)", p * p, without_empty_chunks(arrays["obs_cov"]))
    arrays["obs_cov"] = part_of_numbers(roots, (p, p))
    return _with_intercepts(arrays, p, n)


def _flat_root(covariance: Any) -> Any:
    return merge_numbers(lower_root(covariance), 2)


def _flat_state_root(covariance: Any, selection: Any = None) -> Any:
    return merge_numbers(state_root(covariance, selection), 2)


def _with_intercepts(arrays: dict[str, Any], p: int, n: int) -> dict[str, Any]:
    like = getattr(arrays["endog"], "_meta", arrays["endog"])
    for name, size in (("obs_intercept", p), ("state_intercept", n)):
        if name not in arrays:
            arrays[name] = np.zeros_like(like, _FLOAT64, shape=(size,))
    return {name: arrays[name] for name in MATRICES}


def leading_axes(name: str, array: Any) -> tuple[Any, ...]:
    """Return the shape of an argument without the axes of its vectors or matrices."""
    if name in _OF_STEPS and array.ndim == 1:
        return tuple(array.shape)
    return tuple(array.shape[: array.ndim - (1 if name in _VECTORS else 2)])


def common_shape(arrays: dict[str, Any]) -> tuple[Any, ...]:
    """Return the shape of steps and rows; the first array must have an axis of steps."""
    shapes = {name: leading_axes(name, array) for name, array in arrays.items()}
    shape = broadcast_shape(shapes, "the axes of steps and rows")
    if not shape:
        name, array = next(iter(arrays.items()))
        raise ValueError(f"{name} must have an axis of steps, (..., steps, numbers); got shape {array.shape}")
    return shape


def filter_problem(model: StateSpaceModel, phase: str) -> Problem:
    """Return the problem of the pass "filter", "llf" or "predict"."""
    n = model.n
    states, operands = joined_initial_states(model), _operands(model, MATRICES)
    if model.marks is not None:
        operands += [model.marks[..., None], along_rows(states, model.shape, model.axis)]
    width = 1 + {"llf": 0, "predict": 1, "filter": 2}[phase] * (n + n * n)
    initial = (initial_states(states, model.shape),)
    return _problem(model, phase, operands, initial, width, _FLOAT64)


def smooth_problem(model: StateSpaceModel, *filtered: Any, phase: str = "smooth") -> Problem:
    """Return the problem of the pass "smooth" or "sums", from the result of the filter.

    For a GPU, `filtered` may be the means and the covariances of predicted states alone.
    """
    n = model.n
    names = (*MATRICES[:5], "state_cov") if model.square_root else MATRICES[:5]
    operands = [*filtered, *_operands(model, names)]
    if model.marks is not None:
        operands.append(model.marks[..., None])
    dtype = _FLOAT64 if phase == "sums" else model.dtype
    return _problem(model, phase, operands, (), n + n * n, dtype, len(filtered) == 2)


def joined_initial_states(model: StateSpaceModel) -> Any:
    """Return mean and covariance of the first states as one array (*rows, n + n²)."""
    n = model.n
    mean, covariance = model.initial_state, model.initial_state_cov
    flat = covariance.reshape(*covariance.shape[:-2], n * n)
    rows = np.broadcast_shapes(mean.shape[:-1], flat.shape[:-1])
    parts = [broadcast_to(part, (*rows, part.shape[-1])) for part in (mean, flat)]
    return concatenate(parts, axis=-1)


def _operands(model: StateSpaceModel, names: tuple[str, ...]) -> list[Any]:
    return [merge_numbers(model.arrays[name], len(model.numbers(name))) for name in names]


def _problem(
    model: StateSpaceModel,
    phase: str,
    operands: list[Any],
    initial: tuple[Any, ...],
    width: int,
    dtype: np.dtype[Any],
    is_divided: bool = False,
) -> Problem:
    n, shape = model.n, model.shape
    is_root_smoother = model.square_root and phase == "smooth"
    state_numbers = n + (2 if is_root_smoother else 1) * n * n
    recurrence = StateSpaceRecurrence.over(
        operands,
        shape,
        dtype,
        axis=model.axis,
        reverse=phase in ("smooth", "sums"),
        state_dtype=_FLOAT64,
        state_shape=(state_numbers,),
        states=state_numbers,
        numbers=width,
        state_numbers=state_numbers,
        phase=phase,
        n=n,
        p=model.p,
        square_root=model.square_root,
        is_divided=is_divided,
    )
    return Problem(recurrence, tuple(operands), initial, (*shape, width), model.memory)
