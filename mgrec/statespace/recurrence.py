"""The passes over the steps of a state space model, and the summaries of chunks.

==========  =========  ===========================================  ==============================
pass        direction  operands                                     state
==========  =========  ===========================================  ==============================
"filter"    forward    the model's, marks and initial states        predicted mean and covariance
"llf"       forward    the same                                     the same
"predict"   forward    the same; writes predicted states            the same
"smooth"    backward   result of "predict", five of the model's,    r and N of Durbin and Koopman
                       marks
"sums"      backward   the same; writes r and N before each step    the same
==========  =========  ===========================================  ==============================

In square-root form covariances and J are given by roots, S·S', and "predict" writes roots. The pass
"smooth" then reads six operands of the model. Its states are u, W and the root S of the predicted
state: see :mod:`.cpu.roots`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from ..core.arrays.array_types import cast, to_host
from ..core.arrays.chunk import Chunk
from ..core.arrays.elements import Part
from ..core.backends import backend_of
from ..core.contract.kernels import Backend
from ..core.contract.recurrence import Arrays, ChunkInputs, Shape
from ..core.contract.scan import ElementChain
from .cuda import roots as cuda_roots

A = TypeVar("A")
"""Type of the arrays of results."""
ROUNDING = 2.0**-46
"""Error of a row of a root after some reflections, relative to the row."""
NOT_ROUNDING = 2.0**-48
"""A smaller part of a variance that remains after an elimination is rounding: it becomes 0."""
INVALID = 2.0**-20
"""A larger negative part of a variance is not rounding: results become nan."""
_FLOAT64 = np.dtype(np.float64)


def lower_root(covariance: Any, dtype: Any = None) -> Any:
    """Return lower triangular S of the symmetric parts S·S' of covariances, which may be singular.

    Pivots below rounding become 0. Covariances whose eigenvalues are negative by more than the
    rounding of a dtype, by default theirs, have roots of nan.
    """
    dtype = np.dtype(dtype or covariance.dtype)
    dtype = dtype if dtype.kind == "f" else _FLOAT64
    least = float(np.finfo(dtype).eps)
    if not backend_of(covariance).is_host:
        return cuda_roots.lower_root(covariance, least)
    P = cast(covariance, _FLOAT64)
    P = 0.5 * (P + P.swapaxes(-1, -2))
    S, size = np.zeros_like(P), P.shape[-1]
    with np.errstate(all="ignore"):
        for j in range(size):
            row = S[..., j, :j]
            remainder = P[..., j:, j] - (S[..., j:, :j] @ row[..., None])[..., 0]
            pivot, scale = remainder[..., 0], size * P[..., j, j]
            is_zero = pivot <= 4 * np.finfo(_FLOAT64).eps * scale
            is_negative = pivot < -least * scale
            root = np.sqrt(np.where(is_negative, np.nan, np.where(is_zero, 1.0, pivot)))
            column = np.where(is_zero & ~is_negative, 0.0, 1.0 / root)
            S[..., j:, j] = remainder * column[..., None]
    return S


def state_root(covariance: np.ndarray, selection: Any = None) -> np.ndarray:
    """Return roots (n, n) of selection·covariance·selection'."""
    root = lower_root(covariance)
    if selection is None:
        return root
    root = cast(selection, _FLOAT64) @ root
    n, noises = root.shape[-2:]
    if noises > n:
        return backend_of(root).from_host(triangular_root(to_host(root)), root)
    widths = [(0, 0)] * (root.ndim - 1) + [(0, n - noises)]
    return np.pad(root, widths)


def triangular_root(root: np.ndarray) -> np.ndarray:
    """Return lower triangular S with S·S' = A·A', for arrays A (..., n, k) with k at least n."""
    upper: np.ndarray = np.linalg.qr(root.swapaxes(-1, -2), mode="r")  # type: ignore[assignment]
    return upper.swapaxes(-1, -2)


@dataclass(frozen=True)
class FilterSummary:
    """The predicted state after a chunk, as a function of that before it.

    The first observation of a chunk is part of the function as it is, so that the state which the
    other numbers refer to is followed by a transition and its noise (Särkkä and García-Fernández
    2021): then models without noise of observations have summaries too.

    `first`: operands of the first step, flat, each with its strides.
    `dependence`, array (outer, inner, n, n): a of the mean A·x + b after the chunk, for the state x
      after the first observation.
    `mean`, `covariance`, arrays (outer, inner, n) and (outer, inner, n, n): b, and the covariance
      for a given x.
    `eta`, `information`, arrays (outer, inner, n) and (outer, inner, n, n): the likelihood of x is
      exp(eta·x − x·J·x / 2), with the information J. In square-root form it is that of numbers eta
      = J'·x with noise of variance 1.
    `is_reset`, array (outer, inner) of bool: whether a sequence starts after the first step.
    `redo`: the chunk, if states of an unstable model grow in it so much that the function loses
      digits or overflows. The states after it are then computed step by step.
    """

    first: list[Any]
    dependence: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    eta: np.ndarray
    information: np.ndarray
    is_reset: np.ndarray
    redo: Chunk | None = None


@dataclass(frozen=True)
class SmootherSummary:
    """r and N before a chunk, as a function of those after it: M·r + u and M·N·M' + W.

    In square-root form, u and W before a chunk: M·u + r and a root of M·W·W'·M' + N·N'.

    `dependence`, array (outer, inner, n, n): m.
    `r`, `N`, arrays (outer, inner, n) and (outer, inner, n, n): u and W.
    `is_reset`, array (outer, inner) of bool: whether a sequence starts in the chunk.
    `first_root`, `next_root`, arrays (outer, inner, n, n): roots S of the predicted states of the
      first step and after the chunk.
    """

    dependence: np.ndarray
    r: np.ndarray
    N: np.ndarray
    is_reset: np.ndarray
    first_root: np.ndarray | None = None
    next_root: np.ndarray | None = None


@dataclass(frozen=True, kw_only=True)
class StateSpaceRecurrence(ElementChain):
    """One pass over the steps of a model with n states and p entries of an observation."""

    family: ClassVar[str] = "statespace"
    methods: ClassVar[tuple[str, ...]] = ("auto",)
    phase: str
    n: int
    p: int
    square_root: bool = False
    is_split: bool = False
    """Whether a GPU returns the numbers of a step in arrays of their own, by the first of them."""
    is_divided: bool = False
    """Whether a GPU reads the results of "predict" as two arrays, of means and of covariances."""

    def in_parts(self, parts: Sequence[Part]) -> StateSpaceRecurrence:
        """Return the recurrence for callers that need parts of its result alone."""
        has_all = any(part.shape is None for part in parts)
        is_split = not has_all and self.phase in ("filter", "predict", "smooth")
        return replace(self, is_split=True) if is_split else self

    def determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, carry_in: Any, out: Arrays = ()
    ) -> tuple[Arrays, Any]:
        """Return the results, and no carry-out."""
        if not self.is_split or backend.is_host:
            return super().determine(backend, inputs, shape, carry_in, out)
        chunk, n = self.lay_out(inputs, shape), self.n
        if carry_in is None:
            carry_in = self.first_carry_in((), shape)
        filtered = 1 + n + n * n
        sizes = {0: 1, filtered: n, filtered + n: n * n, 1: n, 1 + n: n * n}
        if self.phase == "predict":
            sizes = {0: 1, 1: n, 1 + n: n * n}
        if self.is_smoother:
            sizes = {0: n, n: n * n}
        arrays = {
            start: backend.empty((*shape[:-1], size), self.result_dtype) for start, size in sizes.items()
        }
        backend.kernels(self.family).determine(self, chunk, carry_in, arrays)
        return (arrays,), None

    @property
    def is_smoother(self) -> bool:
        """Whether the pass runs backwards over results of the filter."""
        return self.phase in ("smooth", "sums")

    @property
    def smoothed(self) -> int:
        """Number of operands of the smoother before the marks."""
        return 7 if self.square_root else 6


def split(states: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return vectors and matrices from states (outer, inner, n + n²)."""
    return states[..., :n], states[..., n:].reshape(*states.shape[:-1], n, n)


def split_roots(states: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return u, W and the root from states (outer, inner, n + 2·n²)."""
    *parts, root = *split(states[..., : n + n * n], n), states[..., n + n * n :]
    return parts[0], parts[1], root.reshape(*states.shape[:-1], n, n)


def join(vectors: np.ndarray, *matrices: np.ndarray) -> np.ndarray:
    """Return states (outer, inner, n + n²), or more for several matrices."""
    flat = [matrix.reshape(*vectors.shape[:-1], -1) for matrix in matrices]
    return np.concatenate([vectors, *flat], axis=-1)


def after_filter(
    summary: FilterSummary, mean: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the predicted state after a chunk, from the state after its first observation.

    With P = S·S', the covariance given all observations is S·(I + S'·J·S)⁻¹·S'. I + S'·J·S is well
    conditioned even where P is that of a diffuse state.
    """
    A, J = summary.dependence, summary.information
    # Without this a singular variance, whose states are nan, would end in an error of LAPACK.
    is_valid = np.isfinite(covariance + J).all((-1, -2))[..., None, None]
    covariance, J = np.where(is_valid, covariance, 0.0), np.where(is_valid, J, 0.0)
    # Correlations: states may have units of any size, and eigh has errors of the largest one.
    deviations = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
    deviations = np.where(deviations > 0.0, deviations, 1.0)[..., None]
    values, vectors = np.linalg.eigh(covariance / deviations / _transposed(deviations))
    S = deviations * vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    inner = np.eye(A.shape[-1]) + _transposed(S) @ J @ S
    root = np.linalg.solve(np.linalg.cholesky(inner), _transposed(S))
    updated = _transposed(root) @ root
    difference = summary.eta - (J @ mean[..., None])[..., 0]
    x = mean + (updated @ difference[..., None])[..., 0]
    after = A @ updated @ _transposed(A) + summary.covariance
    # Without noise of its own, a state may be known exactly, as after a single step.
    bound = A.shape[-1] * (A**2 @ np.diagonal(updated, axis1=-2, axis2=-1)[..., None])
    variances = np.diagonal(after, axis1=-2, axis2=-1)[..., None]
    noise = np.diagonal(summary.covariance, axis1=-2, axis2=-1)[..., None]
    is_known = (noise == 0.0) & (variances <= ROUNDING * bound)
    after = np.where(is_known | _transposed(is_known), 0.0, after)
    return ((A @ x[..., None])[..., 0] + summary.mean, np.where(is_valid, after, np.nan))


def before_smoother(summary: SmootherSummary, r: np.ndarray, N: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return r and N before a chunk, from those after it."""
    M = summary.dependence
    return (M @ r[..., None])[..., 0] + summary.r, M @ N @ _transposed(M) + summary.N


def with_root(
    S: np.ndarray, u: np.ndarray, W: np.ndarray, later_S: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return u and W for the root S of a state, from those for another root of its covariance.

    A chunk computes S after its last step, and the next one starts from a root that differs by
    rounding. The orthogonal Q with S·Q = later_S is found row by row, in the order of what the rows
    add to those before them, so that each row has an error of roundings. Nothing is known of what
    neither has, nor of anything if there is no later state, whose root is 0.
    """
    size = np.linalg.norm(S, axis=-1, keepdims=True)
    size = np.where(size == 0.0, 1.0, size)
    rows, later_rows = S / size, later_S / size
    Q, known, later_known = (np.zeros_like(S) for _ in range(3))
    for _ in range(S.shape[-1]):
        pivot = (rows**2).sum(-1).argmax(-1)[..., None, None]
        q, later_q = (
            np.take_along_axis(array, pivot, -2) @ (np.eye(S.shape[-1]) - parts)
            for array, parts in ((rows, known), (later_rows, later_known))
        )
        lengths = [np.linalg.norm(part, axis=-1, keepdims=True) for part in (q, later_q)]
        is_rounding = np.minimum(*lengths) < ROUNDING
        q, later_q = (
            np.where(is_rounding, 0.0, part / length)
            for part, length in zip((q, later_q), lengths, strict=True)
        )
        Q += _transposed(q) @ later_q
        known += _transposed(q) @ q
        later_known += _transposed(later_q) @ later_q
        rows -= rows @ _transposed(q) @ q
        later_rows -= later_rows @ _transposed(later_q) @ later_q
    root = triangular_root(np.concatenate([Q @ W, np.eye(S.shape[-1]) - known], axis=-1))
    return (Q @ u[..., None])[..., 0], root


def before_root_smoother(summary: SmootherSummary, state: np.ndarray) -> np.ndarray:
    """Return u, W and the root before a chunk, from those after it."""
    assert summary.first_root is not None and summary.next_root is not None
    M, n = summary.dependence, summary.dependence.shape[-1]
    u, W = with_root(summary.next_root, *split_roots(state, n))
    root = triangular_root(np.concatenate([M @ W, summary.N], axis=-1))
    return join((M @ u[..., None])[..., 0] + summary.r, root, summary.first_root)


def _transposed(matrices: np.ndarray) -> np.ndarray:
    return matrices.swapaxes(-1, -2)


class KalmanFilter(NamedTuple, Generic[A]):
    """Result of :func:`mgrec.statespace.kalman_filter`, for n states.

    Attributes
    ----------
    llf : array
        Log-likelihood of each row, in float64.
    llf_obs : array (..., steps)
        Logarithm of the density of each observation, given all earlier ones of its sequence; 0 if
        it is missing.
    filtered_state, filtered_state_cov : arrays (..., steps, n) and (..., steps, n, n)
        Mean and covariance of the state at each step, given the observations up to that step.
    predicted_state, predicted_state_cov : arrays (..., steps, n) and (..., steps, n, n)
        Mean and covariance of the state at each step, given the observations before that step.
    """

    llf: Any
    llf_obs: A
    filtered_state: A
    filtered_state_cov: A
    predicted_state: A
    predicted_state_cov: A


class KalmanSmoother(NamedTuple, Generic[A]):
    """Result of :func:`mgrec.statespace.kalman_smoother`, for n states.

    Attributes
    ----------
    llf : array
        Log-likelihood of each row, in float64.
    smoothed_state, smoothed_state_cov : arrays (..., steps, n) and (..., steps, n, n)
        Mean and covariance of the state at each step, given all observations.
    """

    llf: Any
    smoothed_state: A
    smoothed_state_cov: A


class Sample(NamedTuple, Generic[A]):
    """Result of :func:`mgrec.statespace.sample`, for n states.

    Attributes
    ----------
    endog : array (..., steps, p)
        Observations.
    states : array (..., steps, n)
    """

    endog: A
    states: A
