"""State space models by array operations, for CuPy arrays: prefixes of associative elements.

An element is the step from the filtered state at one step to that at the next (Särkkä and
García-Fernández 2021): the state x before it leads to the mean A·x + b and the covariance C, and
its observation has the likelihood exp(eta·x − x·J·x / 2).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.arrays.array_types import cast
from ..core.arrays.chunk import move_axis
from ..core.backends import CPU, backend_of
from ..scans.matrix.composition import Elements, prefixes
from ..scans.matrix.on_gpu import on_device, steps_first
from ..solve.functions import broadcast_to
from .arguments import Model
from .results import KalmanFilter, KalmanSmoother


class _Arrays:
    """The arrays of a model with the steps first, in float64; rows of missing entries are 0.

    Attributes
    ----------
    y, Z, H, d, T, c, Q : arrays (steps, *rows, ...)
        Observations, and the matrices of a step. H of a missing entry is that of the identity.
    missing : array (steps, *rows, p) of bool
    a0, P0 : arrays (*rows, n) and (*rows, n, n)
        The predicted state at the first step of each sequence.
    is_start : array (steps, *rows) of bool
    """

    def __init__(self, model: Model) -> None:
        arrays = (*model.arrays.values(), model.initial_state, model.initial_state_cov)
        like = next((array for array in arrays if backend_of(array) is not CPU), arrays[0])
        shape, axis = model.shape, model.axis

        def laid_out(name: str) -> Any:
            array, numbers = model.arrays[name], model.numbers(name)
            if name in ("obs_cov", "state_cov"):
                array = 0.5 * (array + _transposed(array))
            return steps_first(array, shape, numbers, axis, False, like)

        y, self.d, self.T, self.c, self.Q = map(
            laid_out, ("endog", "obs_intercept", "transition", "state_intercept", "state_cov")
        )
        self.missing = np.isnan(y)
        is_observed = ~self.missing
        self.y = np.where(self.missing, 0.0, y)
        self.d = np.where(self.missing, 0.0, self.d)
        self.Z = np.where(is_observed[..., None], laid_out("design"), 0.0)
        both = is_observed[..., None] & is_observed[..., None, :]
        identity = on_device(np.eye(model.p), like)
        self.H = np.where(both, laid_out("obs_cov"), identity)
        rows, n = y.shape[1:-1], model.n
        self.a0 = broadcast_to(on_device(model.initial_state, like), (*rows, n))
        self.P0 = broadcast_to(on_device(model.initial_state_cov, like), (*rows, n, n))
        self.is_start = np.zeros_like(self.missing, shape=y.shape[:-1])
        if model.marks is not None:
            self.is_start |= steps_first(model.marks, shape, (), axis, False, like) != 0
        self.is_start[:1] = True

    @property
    def identity(self) -> Any:
        """The identity of the states, in the memory of the arrays."""
        return on_device(np.eye(self.T.shape[-1]), self.T)


def _apply(matrices: Any, vectors: Any) -> Any:
    return np.matmul(matrices, vectors[..., None])[..., 0]


def _transposed(matrices: Any) -> Any:
    return matrices.swapaxes(-1, -2)


def _update(arrays: _Arrays, a: Any, P: Any) -> tuple[Any, Any, Any, Any]:
    """Return the difference v of each observation, F⁻¹·Z, the gain, and F."""
    v = arrays.y - arrays.d - _apply(arrays.Z, a)
    PZ = np.matmul(P, _transposed(arrays.Z))
    F = np.matmul(arrays.Z, PZ) + arrays.H
    FZ = np.linalg.solve(F, arrays.Z)
    gain = np.matmul(P, _transposed(FZ))
    return v, FZ, gain, F


def _elements(arrays: _Arrays) -> Elements:
    """Return the elements (A, b, C, eta, J, is_start) of all steps."""
    before = slice(None, -1)
    is_start = arrays.is_start
    a, P = np.zeros_like(arrays.c), np.zeros_like(arrays.Q)
    a[1:], P[1:] = arrays.c[before], arrays.Q[before]
    a = np.where(is_start[..., None], arrays.a0, a)
    P = np.where(is_start[..., None, None], arrays.P0, P)
    T = np.zeros_like(arrays.T)
    T[1:] = arrays.T[before]
    T = np.where(is_start[..., None, None], 0.0, T)
    v, FZ, gain, _ = _update(arrays, a, P)
    remaining = arrays.identity - np.matmul(gain, arrays.Z)
    A, C = np.matmul(remaining, T), np.matmul(remaining, P)
    b = a + _apply(gain, v)
    seen = np.matmul(_transposed(T), _transposed(FZ))
    J = np.matmul(seen, np.matmul(arrays.Z, T))
    return A, b, 0.5 * (C + _transposed(C)), _apply(seen, v), J, is_start


def _filtered(arrays: _Arrays) -> tuple[Any, Any]:
    """Return mean and covariance of the filtered states."""
    identity = arrays.identity

    def compose(earlier: Elements, later: Elements) -> Elements:
        A1, b1, C1, eta1, J1, start1 = earlier
        A2, b2, C2, eta2, J2, start2 = later
        # (I + C·J)⁻¹ and its transpose.
        D = np.linalg.inv(identity + np.matmul(C1, J2))
        AD = np.matmul(A2, D)
        b = _apply(AD, b1 + _apply(C1, eta2)) + b2
        C = np.matmul(np.matmul(AD, C1), _transposed(A2)) + C2
        AD1 = np.matmul(_transposed(A1), _transposed(D))
        eta = _apply(AD1, eta2 - _apply(J2, b1)) + eta1
        J = np.matmul(np.matmul(AD1, J2), A1) + J1
        is_vector, is_matrix = start2[..., None], start2[..., None, None]
        # What comes before a start has no effect, nan included.
        return (
            np.where(is_matrix, A2, np.matmul(AD, A1)),
            np.where(is_vector, b2, b),
            np.where(is_matrix, C2, 0.5 * (C + _transposed(C))),
            np.where(is_vector, 0.0, eta),
            np.where(is_matrix, 0.0, J),
            start1 | start2,
        )

    _, b, C, *_ = prefixes(compose, _elements(arrays))
    return b, C


def _predicted(arrays: _Arrays, b: Any, C: Any) -> tuple[Any, Any]:
    """Return mean and covariance of the predicted states, from the filtered ones."""
    a, P = np.zeros_like(b), np.zeros_like(C)
    T = arrays.T[:-1]
    a[1:] = _apply(T, b[:-1]) + arrays.c[:-1]
    P[1:] = np.matmul(np.matmul(T, C[:-1]), _transposed(T)) + arrays.Q[:-1]
    return (
        np.where(arrays.is_start[..., None], arrays.a0, a),
        np.where(arrays.is_start[..., None, None], arrays.P0, P),
    )


def _filter(arrays: _Arrays) -> tuple[Any, Any, Any, Any, Any]:
    """Return log-likelihoods, filtered and predicted means and covariances."""
    b, C = _filtered(arrays)
    a, P = _predicted(arrays, b, C)
    v, _, _, F = _update(arrays, a, P)
    square = (v * np.linalg.solve(F, v[..., None])[..., 0]).sum(-1)
    _, log_determinant = np.linalg.slogdet(F)
    count = (~arrays.missing).sum(-1)
    llf_obs = -0.5 * (count * math.log(2 * math.pi) + log_determinant + square)
    return llf_obs, b, C, a, P


def kalman_filter(model: Model) -> KalmanFilter:
    """Return the result of :func:`mgrec.statespace.kalman_filter`."""
    llf_obs, *states = _filter(_Arrays(model))
    in_place = [cast(move_axis(array, 0, model.axis), model.dtype) for array in (llf_obs, *states)]
    return KalmanFilter(llf_obs.sum(0), *in_place)


def kalman_smoother(model: Model) -> KalmanSmoother:
    """Return the result of :func:`mgrec.statespace.kalman_smoother`."""
    arrays = _Arrays(model)
    llf_obs, _, _, a, P = _filter(arrays)
    v, FZ, gain, _ = _update(arrays, a, P)
    E = np.matmul(arrays.T, arrays.identity - np.matmul(gain, arrays.Z))
    # At the last step of a sequence nothing comes from later steps.
    is_last = np.ones_like(arrays.is_start)
    is_last[:-1] = arrays.is_start[1:]
    M = np.where(is_last[..., None, None], 0.0, _transposed(E))
    u, W = _apply(_transposed(FZ), v), np.matmul(_transposed(arrays.Z), FZ)

    def compose(later: Elements, earlier: Elements) -> Elements:
        M1, u1, W1, end1 = later
        M2, u2, W2, end2 = earlier
        r, N = _apply(M2, u1) + u2, np.matmul(np.matmul(M2, W1), _transposed(M2)) + W2
        return (
            np.where(end2[..., None, None], 0.0, np.matmul(M2, M1)),
            np.where(end2[..., None], u2, r),
            np.where(end2[..., None, None], W2, N),
            end1 | end2,
        )

    reverse = slice(None, None, -1)
    _, r, N, _ = prefixes(compose, tuple([part[reverse] for part in (M, u, W, is_last)]))
    mean = a + _apply(P, r[reverse])
    covariance = P - np.matmul(np.matmul(P, N[reverse]), P)
    smoothed = [cast(move_axis(array, 0, model.axis), model.dtype) for array in (mean, covariance)]
    return KalmanSmoother(llf_obs.sum(0), *smoothed)
