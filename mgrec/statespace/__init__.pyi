# As in the stub of mgrec, functions have overloads for NumPy arrays and for arrays of another type.
# fmt: off

from collections.abc import Hashable
from typing import Any, TypeVar, overload

from numpy.typing import NDArray

from ..distributed.groups.group import Group
from ..types import Columns, DlpackArray, Kind, LazyArray, Memory, Numbers
from .recurrence import KalmanFilter, KalmanSmoother, Sample

ArrayLike = Numbers | Kind
A = TypeVar("A", bound=Kind)
T = TypeVar("T", bound=DlpackArray | LazyArray)

@overload
def kalman_filter(
    endog: Numbers, design: Numbers, obs_cov: Numbers, transition: Numbers, state_cov: Numbers, *,
    initial_state: Numbers, initial_state_cov: Numbers, selection: Numbers | None = None,
    obs_intercept: Numbers | None = None, state_intercept: Numbers | None = None, axis: int = -1,
    reset: Any = None, lengths: Any = None, memory: Memory = "stream", square_root: bool = False,
    group: Group | None = None
) -> KalmanFilter[NDArray[Any]]: ...
@overload
def kalman_filter(
    endog: Numbers, design: Numbers | A, obs_cov: Numbers | A, transition: Numbers | A,
    state_cov: Numbers | A, *, initial_state: Numbers | A, initial_state_cov: Numbers | A,
    selection: Numbers | A | None = None, obs_intercept: Numbers | A | None = None,
    state_intercept: Numbers | A | None = None, axis: int = -1, reset: Any = None, lengths: Any = None,
    memory: Memory = "stream", square_root: bool = False, group: Group | None = None
) -> KalmanFilter[A]: ...
@overload
def kalman_filter(
    endog: Columns, design: ArrayLike, obs_cov: ArrayLike, transition: ArrayLike, state_cov: ArrayLike, *,
    initial_state: ArrayLike, initial_state_cov: ArrayLike, selection: ArrayLike | None = None,
    obs_intercept: ArrayLike | None = None, state_intercept: ArrayLike | None = None, axis: int = -1,
    reset: Any = None, lengths: Any = None, memory: Memory = "stream", square_root: bool = False,
    group: Group | None = None
) -> KalmanFilter[Any]: ...
@overload
def kalman_filter(
    endog: A, design: ArrayLike, obs_cov: ArrayLike, transition: ArrayLike, state_cov: ArrayLike, *,
    initial_state: ArrayLike, initial_state_cov: ArrayLike, selection: ArrayLike | None = None,
    obs_intercept: ArrayLike | None = None, state_intercept: ArrayLike | None = None, axis: int | str = -1,
    reset: Any = None, lengths: Any = None, memory: Memory = "stream", square_root: bool = False,
    dim: Hashable = ..., group: Group | None = None
) -> KalmanFilter[A]: ...
@overload
def kalman_smoother(
    endog: Numbers, design: Numbers, obs_cov: Numbers, transition: Numbers, state_cov: Numbers, *,
    initial_state: Numbers, initial_state_cov: Numbers, selection: Numbers | None = None,
    obs_intercept: Numbers | None = None, state_intercept: Numbers | None = None, axis: int = -1,
    reset: Any = None, lengths: Any = None, memory: Memory = "stream", square_root: bool = False,
    group: Group | None = None
) -> KalmanSmoother[NDArray[Any]]: ...
@overload
def kalman_smoother(
    endog: Numbers, design: Numbers | A, obs_cov: Numbers | A, transition: Numbers | A,
    state_cov: Numbers | A, *, initial_state: Numbers | A, initial_state_cov: Numbers | A,
    selection: Numbers | A | None = None, obs_intercept: Numbers | A | None = None,
    state_intercept: Numbers | A | None = None, axis: int = -1, reset: Any = None, lengths: Any = None,
    memory: Memory = "stream", square_root: bool = False, group: Group | None = None
) -> KalmanSmoother[A]: ...
@overload
def kalman_smoother(
    endog: Columns, design: ArrayLike, obs_cov: ArrayLike, transition: ArrayLike, state_cov: ArrayLike, *,
    initial_state: ArrayLike, initial_state_cov: ArrayLike, selection: ArrayLike | None = None,
    obs_intercept: ArrayLike | None = None, state_intercept: ArrayLike | None = None, axis: int = -1,
    reset: Any = None, lengths: Any = None, memory: Memory = "stream", square_root: bool = False,
    group: Group | None = None
) -> KalmanSmoother[Any]: ...
@overload
def kalman_smoother(
    endog: A, design: ArrayLike, obs_cov: ArrayLike, transition: ArrayLike, state_cov: ArrayLike, *,
    initial_state: ArrayLike, initial_state_cov: ArrayLike, selection: ArrayLike | None = None,
    obs_intercept: ArrayLike | None = None, state_intercept: ArrayLike | None = None, axis: int | str = -1,
    reset: Any = None, lengths: Any = None, memory: Memory = "stream", square_root: bool = False,
    dim: Hashable = ..., group: Group | None = None
) -> KalmanSmoother[A]: ...
@overload
def log_likelihood(
    endog: Numbers, design: Numbers, obs_cov: Numbers, transition: Numbers, state_cov: Numbers, *,
    initial_state: Numbers, initial_state_cov: Numbers, selection: Numbers | None = None,
    obs_intercept: Numbers | None = None, state_intercept: Numbers | None = None, axis: int = -1,
    reset: Any = None, lengths: Any = None, memory: Memory = "stream", square_root: bool = False,
    group: Group | None = None
) -> Any: ...
@overload
def log_likelihood(
    endog: Numbers, design: Numbers | T, obs_cov: Numbers | T, transition: Numbers | T,
    state_cov: Numbers | T, *, initial_state: Numbers | T, initial_state_cov: Numbers | T,
    selection: Numbers | T | None = None, obs_intercept: Numbers | T | None = None,
    state_intercept: Numbers | T | None = None, axis: int = -1, reset: Any = None, lengths: Any = None,
    memory: Memory = "stream", square_root: bool = False, group: Group | None = None
) -> T: ...
@overload
def log_likelihood(
    endog: T, design: ArrayLike, obs_cov: ArrayLike, transition: ArrayLike, state_cov: ArrayLike, *,
    initial_state: ArrayLike, initial_state_cov: ArrayLike, selection: ArrayLike | None = None,
    obs_intercept: ArrayLike | None = None, state_intercept: ArrayLike | None = None, axis: int = -1,
    reset: Any = None, lengths: Any = None, memory: Memory = "stream", square_root: bool = False,
    group: Group | None = None
) -> T: ...
@overload
def log_likelihood(
    endog: Kind, design: ArrayLike, obs_cov: ArrayLike, transition: ArrayLike, state_cov: ArrayLike, *,
    initial_state: ArrayLike, initial_state_cov: ArrayLike, selection: ArrayLike | None = None,
    obs_intercept: ArrayLike | None = None, state_intercept: ArrayLike | None = None, axis: int | str = -1,
    reset: Any = None, lengths: Any = None, memory: Memory = "stream", square_root: bool = False,
    dim: Hashable = ..., group: Group | None = None
) -> Any: ...
@overload
def sample(
    design: Numbers, transition: Numbers, measurement_shocks: Numbers, state_shocks: Numbers, *,
    initial_state: Numbers, selection: Numbers | None = None, obs_intercept: Numbers | None = None,
    state_intercept: Numbers | None = None, axis: int = -1, reset: Any = None, lengths: Any = None,
    memory: Memory = "stream"
) -> Sample[NDArray[Any]]: ...
@overload
def sample(
    design: Numbers | A, transition: Numbers | A, measurement_shocks: Numbers, state_shocks: Numbers, *,
    initial_state: Numbers | A, selection: Numbers | A | None = None,
    obs_intercept: Numbers | A | None = None, state_intercept: Numbers | A | None = None, axis: int = -1,
    reset: Any = None, lengths: Any = None, memory: Memory = "stream"
) -> Sample[A]: ...
@overload
def sample(
    design: ArrayLike, transition: ArrayLike, measurement_shocks: Columns, state_shocks: Columns, *,
    initial_state: ArrayLike, selection: ArrayLike | None = None, obs_intercept: ArrayLike | None = None,
    state_intercept: ArrayLike | None = None, axis: int = -1, reset: Any = None, lengths: Any = None,
    memory: Memory = "stream"
) -> Sample[Any]: ...
@overload
def sample(
    design: ArrayLike, transition: ArrayLike, measurement_shocks: A, state_shocks: A, *,
    initial_state: ArrayLike, selection: ArrayLike | None = None, obs_intercept: ArrayLike | None = None,
    state_intercept: ArrayLike | None = None, axis: int | str = -1, reset: Any = None, lengths: Any = None,
    memory: Memory = "stream", dim: Hashable = ...
) -> Sample[A]: ...
