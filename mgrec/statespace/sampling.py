"""Samples of state space models, from random numbers that the caller draws."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..core.arrays.array_types import cast, in_one_memory, is_lazy, without_empty_chunks
from ..core.arrays.chunk import has_unknown_sizes
from ..core.arrays.resets import as_reset
from ..core.arrays.validation import as_axis
from ..core.backends import backend_of
from ..core.contract.problem import Composed, check_memory
from ..scans.functions import scan
from ..scans.matrix.arguments import as_vectors, check_rows, result_dtype
from ..scans.matrix.maps import matrix
from ..solve import StepLabels, public_function
from ..solve.functions import broadcast_to, concatenate, where
from .arguments import PARAMETERS, as_steps, check_in_memory, common_shape, optional_arrays, sizes_of
from .recurrence import Sample

_FLOAT64 = np.dtype(np.float64)
_SIMULATION = StepLabels(PARAMETERS, (("steps", "entries"), ("steps", "state")))


@partial(public_function, labelled=_SIMULATION)
def sample(
    design: Any,
    transition: Any,
    measurement_shocks: Any,
    state_shocks: Any,
    *,
    initial_state: Any,
    selection: Any = None,
    obs_intercept: Any = None,
    state_intercept: Any = None,
    axis: int = -1,
    reset: Any = None,
    memory: str = "stream",
) -> Composed:
    """Return observations and states of a linear state space model, from random numbers.

    Parameters
    ----------
    design, transition, selection, obs_intercept, state_intercept, axis, reset, lengths, memory
        See :func:`mgrec.statespace.kalman_filter`.
    measurement_shocks : array_like (..., steps, p)
        Noise of each observation, drawn with the covariance `obs_cov`. An array of one axis has one
        number a step, as `state_shocks` may.
    state_shocks : array_like (..., steps, r)
        Noise between each step and the next, drawn with the covariance `state_cov`; the last one is
        not used.
    initial_state : array_like (..., n)
        State at the first step of each sequence.

    Returns
    -------
    Sample
        The tuple (endog, states), of shapes (..., steps, p) and (..., steps, n).

    Raises
    ------
    TypeError, ValueError
        As for :func:`mgrec.statespace.kalman_filter`.

    Examples
    --------
    A level that moves at random, observed with noise:

    >>> import numpy as np, mgrec
    >>> generator = np.random.default_rng(0)
    >>> noises, moves = generator.normal(size=(4, 1)), np.array([[1.0], [-2.0], [0.5], [0.0]])
    >>> drawn = mgrec.statespace.sample(np.eye(1), np.eye(1), noises, moves, initial_state=[3.0])
    >>> drawn.states[:, 0]
    array([3. , 4. , 2. , 2.5])
    """
    p, n = sizes_of(design)
    arrays = {
        "measurement_shocks": as_steps("measurement_shocks", measurement_shocks, p),
        "design": as_vectors("design", design, (p, n)),
        "transition": as_vectors("transition", transition, (n, n)),
    }
    optional, noises = optional_arrays(selection, obs_intercept, state_intercept, p, n)
    arrays["state_shocks"] = as_steps("state_shocks", state_shocks, noises)
    arrays |= optional
    initial = as_vectors("initial_state", initial_state, (n,))
    data = [(name, arrays[name]) for name in ("measurement_shocks", "state_shocks")]
    parameters = [(name, array) for name, array in arrays.items() if "shocks" not in name]
    *moved, initial = in_one_memory(data, [*parameters, ("initial_state", initial)])
    arrays |= zip([name for name, _ in parameters], moved, strict=True)
    check_in_memory("initial_state", initial)
    check_memory(memory)
    shape = common_shape(arrays)
    axis = as_axis(axis, shape)
    if has_unknown_sizes([shape]):
        raise ValueError(
            "shocks must be in chunks of known sizes: call compute_chunk_sizes() on them, or "
            "to_dask_array(lengths=True) on a Dask DataFrame"
        )
    check_rows("initial_state", initial.shape[:-1], shape, axis)
    marks = None if reset is None else as_reset(reset, shape, axis, False, data) != 0

    def solve_passes() -> Sample[Any]:
        dtype = result_dtype(*arrays.values(), initial)
        wide = {name: cast(without_empty_chunks(array), _FLOAT64) for name, array in arrays.items()}
        states = scan(
            matrix(n),
            _before_each_step(wide["transition"], shape, axis),
            _moves(wide, cast(initial, _FLOAT64), shape, axis, marks),
            initial=backend_of(initial).from_host(np.zeros(n), initial),
            axis=axis,
            reset=marks,
            memory=memory,
        )
        endog = _apply(wide["design"], states) + wide["measurement_shocks"]
        if "obs_intercept" in wide:
            endog = endog + wide["obs_intercept"]
        return Sample(cast(endog, dtype), cast(states, dtype))

    return Composed("sample", solve_passes)


def _apply(matrices: Any, vectors: Any) -> Any:
    """Return the products of matrices and vectors, for Dask arrays too."""
    return (matrices * vectors[..., None, :]).sum(axis=-1)


def _moves(arrays: dict[str, Any], initial: Any, shape: tuple[Any, ...], axis: int, marks: Any) -> Any:
    """Return the vectors that the scan adds: noise of the step before, or an initial state."""
    moves = arrays["state_shocks"]
    if "selection" in arrays:
        moves = _apply(arrays["selection"], moves)
    if "state_intercept" in arrays:
        moves = moves + arrays["state_intercept"]
    n = initial.shape[-1]
    moves = broadcast_to(moves, (*shape, n))
    rows = (*shape[:axis], 1, *shape[axis + 1 :], n)
    missing = (None,) * (len(shape) - initial.ndim)
    index: list[Any] = [slice(None)] * len(shape)
    index.insert(axis, None)
    first = broadcast_to(initial[(*missing, ...)][tuple(index)], rows)
    moves = _joined(first, moves, axis)
    return moves if marks is None else where(marks[..., None], first, moves)


def _before_each_step(matrices: Any, shape: tuple[Any, ...], axis: int) -> Any:
    """Return the matrices from the step before to each step; the first is not used."""
    position = axis - len(shape) + matrices.ndim - 2
    if position < 0 or matrices.shape[position] == 1:
        return matrices
    first = matrices[(slice(None),) * position + (slice(0, 1),)]
    return _joined(first, matrices, position)


def _joined(first: Any, others: Any, axis: int) -> Any:
    """Return an array of the same shape and chunks, moved by one step."""
    before = others[(slice(None),) * axis + (slice(0, others.shape[axis] - 1),)]
    if others.shape[axis] == 0:
        return others
    joined = concatenate([first, before], axis=axis)
    return joined.rechunk(others.chunks) if is_lazy(others) else joined
