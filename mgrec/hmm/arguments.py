"""Argument validation of hidden Markov models, and the problems of their passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.arrays.array_types import cast, in_one_memory, is_lazy
from ..core.arrays.elements import broadcast_shape, merge_numbers
from ..core.arrays.resets import as_reset
from ..core.arrays.validation import as_any_array, as_axis
from ..core.backends import common_backend
from ..core.contract.problem import Problem, check_memory
from ..scans.matrix.arguments import along_rows, as_vectors, check_rows, is_in_gpu_memory, result_dtype
from .recurrence import HmmRecurrence, PosteriorRecurrence

LARGEST = 128
"""Largest number of states; pointers of one byte hold 254."""
_FLOAT64 = np.dtype(np.float64)
_TOLERANCE, _NARROW_TOLERANCE = 1e-5, 2.0**-8
"""By how much a sum of probabilities may exceed 1: in float64 as in hmmlearn, in narrower dtypes by
the rounding of bfloat16, whose tensors are cast to float32."""


@dataclass(frozen=True)
class MarkovModel:
    """The validated arguments of a function of :mod:`mgrec.hmm`.

    `startprob`, array (..., states): its leading axes broadcast to the rows.
    `transmat`, array (..., states, states): its leading axes broadcast to `shape`.
    `log_frameprob`, array (..., states): its leading axes broadcast to `shape`. Uniform random
      numbers (...) for a sample.
    `marks`, array of uint8: first steps of sequences besides the first one.
    """

    startprob: Any
    transmat: Any
    log_frameprob: Any
    shape: tuple[Any, ...]
    axis: int
    marks: Any
    memory: str

    @property
    def count(self) -> int:
        """Number of states."""
        return int(self.transmat.shape[-1])

    @property
    def is_in_gpu_memory(self) -> bool:
        """Whether whole arrays are on one GPU: see :func:`.matrix.arguments.is_in_gpu_memory`."""
        arrays = self.log_frameprob, self.transmat, self.startprob
        return is_in_gpu_memory(arrays)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of probabilities in results."""
        return result_dtype(self.log_frameprob, self.transmat, self.startprob)

    def in_logarithms(self) -> MarkovModel:
        """Return the model with the logarithms of `startprob` and `transmat`."""
        return replace(self, startprob=_log(self.startprob), transmat=_log(self.transmat))


def check_model(
    startprob: Any,
    transmat: Any,
    log_frameprob: Any,
    *,
    axis: int = -1,
    reset: Any = None,
    memory: str = "stream",
) -> MarkovModel:
    """Return the validated arguments; raise if one is invalid."""
    count = _number_of_states("log_frameprob", log_frameprob, 1)
    frames = as_vectors("log_frameprob", log_frameprob, (count,))
    matrices = as_vectors("transmat", transmat, (count, count))
    shapes = {"log_frameprob": frames.shape[:-1], "transmat": matrices.shape[:-2]}
    return _checked("log_frameprob", startprob, matrices, frames, shapes, axis, reset, memory)


def check_chain(
    startprob: Any, transmat: Any, uniform: Any, *, axis: int = -1, reset: Any = None, memory: str = "stream"
) -> MarkovModel:
    """Return the validated arguments of :func:`mgrec.hmm.sample`; the frames are `uniform`."""
    count = _number_of_states("transmat", transmat, 2)
    numbers = cast(as_vectors("uniform", uniform, ()), _FLOAT64)
    numbers = _checked_values("uniform", numbers, _check_uniform)
    matrices = as_vectors("transmat", transmat, (count, count))
    if numbers.ndim == 0:
        raise ValueError("uniform must have an axis of steps; got a number")
    shapes = {"uniform": numbers.shape, "transmat": matrices.shape[:-2]}
    return _checked("uniform", startprob, matrices, numbers, shapes, axis, reset, memory)


def _checked(
    name: str,
    startprob: Any,
    matrices: Any,
    frames: Any,
    shapes: dict[str, Any],
    axis: Any,
    reset: Any,
    memory: str,
) -> MarkovModel:
    starts = as_vectors("startprob", startprob, (matrices.shape[-1],))
    shape = broadcast_shape(shapes, "the axes of steps and rows")
    axis = as_axis(axis, shape)
    check_rows("startprob", starts.shape[:-1], shape, axis)
    data = [(name, frames)]
    marks = None if reset is None else as_reset(reset, shape, axis, False, data)
    check_memory(memory)
    starts = _checked_values("startprob", starts, _check_probabilities)
    matrices = _checked_values("transmat", matrices, _check_probabilities)
    (matrices,) = in_one_memory(data, [("transmat", matrices)], [("startprob", starts)])
    return MarkovModel(starts, matrices, frames, shape, axis, marks, memory)


def _checked_values(name: str, array: Any, check: Callable[[str, Any], None]) -> Any:
    """Return an array in host memory, or a Dask array of them, whose values have been checked.

    Chunks are checked when they are computed. Arrays on a GPU are not: that would wait for it.
    """
    if not common_backend([array]).is_host:
        return array
    if not is_lazy(array):
        check(name, array)
        return array

    def checked(block: Any) -> Any:
        check(f"a chunk of {name}", block)
        return block

    return array.map_blocks(checked, dtype=array.dtype, meta=array._meta)


def _check_probabilities(name: str, array: Any) -> None:
    if array.size and array.min() < 0:
        raise ValueError(f"{name} must have probabilities of at least 0; got {array.min()}")
    # A product takes a tenth of the time of sums of short rows.
    sums = array @ np.ones(array.shape[-1])
    is_larger = sums > 1 + (_TOLERANCE if array.dtype == _FLOAT64 else _NARROW_TOLERANCE)
    if is_larger.any():
        row = tuple(map(int, np.argwhere(is_larger)[0]))
        of_row = f"{name}[{', '.join(map(str, row))}]" if row else name
        raise ValueError(f"{of_row} must have probabilities of a sum of at most 1; got {sums[row]}")


def _check_uniform(name: str, array: Any) -> None:
    is_valid = (array >= 0) & (array < 1)
    if not is_valid.all():
        raise ValueError(f"{name} must be in [0, 1); got {array[~is_valid].flat[0]}")


def _number_of_states(name: str, value: Any, ndim: int) -> int:
    array = as_any_array(name, value)
    if array.ndim < 2:
        wanted = "(..., steps, states)" if ndim == 1 else "(..., states, states)"
        raise ValueError(f"{name} must have shape {wanted}; got {array.shape}")
    count = array.shape[-1]
    if not 1 <= count <= LARGEST:
        raise ValueError(f"{name} must have 1 to {LARGEST} states; got {count}")
    return int(count)


def _log(probabilities: Any) -> Any:
    if is_lazy(probabilities):
        return probabilities.map_blocks(_log, dtype=_FLOAT64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(cast(probabilities, _FLOAT64))


def forward_problem(model: MarkovModel, phase: str = "forward") -> Problem:
    """Return the problem of the pass "forward", or "score" for a model in logarithms."""
    dtype = np.dtype(np.uint8) if phase == "score" else _FLOAT64
    operands = [model.log_frameprob, *_matrices_and_starts(model), *_marks(model)]
    return _problem(model, phase, operands, model.count + 1, dtype)


def posterior_problem(model: MarkovModel) -> Problem:
    """Return the problem of both passes."""
    operands = [model.log_frameprob, *_matrices_and_starts(model), *_marks(model)]
    return _problem(model, "posteriors", operands, model.count + 1, _FLOAT64)


def backward_problem(model: MarkovModel, filtered: Any) -> Problem:
    """Return the problem of the pass "backward", from the result of the pass "forward"."""
    matrices, _ = _matrices_and_starts(model)
    operands = [filtered, model.log_frameprob, matrices, *_marks(model)]
    return _problem(model, "backward", operands, model.count, model.dtype)


def follow_problem(model: MarkovModel, pointers: Any) -> Problem:
    """Return the problem of the pass "follow", from the result of the pass "score"."""
    operands = [pointers, model.log_frameprob, *_matrices_and_starts(model)]
    return _problem(model, "follow", operands, 2, _FLOAT64)


def draw_problem(model: MarkovModel) -> Problem:
    """Return the problem of the pass "draw", for a model with uniform numbers as its frames."""
    operands = [model.log_frameprob[..., None], *_matrices_and_starts(model), *_marks(model)]
    return _problem(model, "draw", operands, 1, np.dtype(np.int32))


def _matrices_and_starts(model: MarkovModel) -> list[Any]:
    starts = along_rows(model.startprob, model.shape, model.axis)
    return [merge_numbers(model.transmat, 2), starts]


def _marks(model: MarkovModel) -> list[Any]:
    return [] if model.marks is None else [model.marks[..., None]]


def _problem(
    model: MarkovModel, phase: str, operands: list[Any], numbers: int, dtype: np.dtype[Any]
) -> Problem:
    arrays = tuple([merge_numbers(array, 1) for array in operands])
    of_phase = PosteriorRecurrence if phase == "posteriors" else HmmRecurrence
    of_other_phases = {"follow": 1, "draw": 1, "posteriors": 2 * model.count}
    state_numbers = of_other_phases.get(phase, model.count)
    recurrence = of_phase.over(
        arrays,
        model.shape,
        dtype,
        axis=model.axis,
        reverse=phase in ("backward", "follow"),
        state_dtype=_FLOAT64,
        states=state_numbers,
        numbers=numbers,
        state_numbers=state_numbers,
        phase=phase,
        count=model.count,
    )
    return Problem(recurrence, arrays, (), (*model.shape, numbers), model.memory)
