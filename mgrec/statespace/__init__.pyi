from typing import Any

from ..distributed.groups.group import Group
from ..types import Kind, Memory, Operand
from .recurrence import KalmanFilter, KalmanSmoother, Sample

def kalman_filter(
    endog: Operand | Kind,
    design: Operand | Kind,
    obs_cov: Operand | Kind,
    transition: Operand | Kind,
    state_cov: Operand | Kind,
    *,
    initial_state: Operand | Kind,
    initial_state_cov: Operand | Kind,
    selection: Operand | Kind | None = None,
    obs_intercept: Operand | Kind | None = None,
    state_intercept: Operand | Kind | None = None,
    axis: int = -1,
    reset: Any = None,
    memory: Memory = "stream",
    square_root: bool = False,
    group: Group | None = None,
) -> KalmanFilter: ...
def kalman_smoother(
    endog: Operand | Kind,
    design: Operand | Kind,
    obs_cov: Operand | Kind,
    transition: Operand | Kind,
    state_cov: Operand | Kind,
    *,
    initial_state: Operand | Kind,
    initial_state_cov: Operand | Kind,
    selection: Operand | Kind | None = None,
    obs_intercept: Operand | Kind | None = None,
    state_intercept: Operand | Kind | None = None,
    axis: int = -1,
    reset: Any = None,
    memory: Memory = "stream",
    square_root: bool = False,
    group: Group | None = None,
) -> KalmanSmoother: ...
def log_likelihood(
    endog: Operand | Kind,
    design: Operand | Kind,
    obs_cov: Operand | Kind,
    transition: Operand | Kind,
    state_cov: Operand | Kind,
    *,
    initial_state: Operand | Kind,
    initial_state_cov: Operand | Kind,
    selection: Operand | Kind | None = None,
    obs_intercept: Operand | Kind | None = None,
    state_intercept: Operand | Kind | None = None,
    axis: int = -1,
    reset: Any = None,
    memory: Memory = "stream",
    square_root: bool = False,
    group: Group | None = None,
) -> Any: ...
def sample(
    design: Operand | Kind,
    transition: Operand | Kind,
    measurement_shocks: Operand | Kind,
    state_shocks: Operand | Kind,
    *,
    initial_state: Operand | Kind,
    selection: Operand | Kind | None = None,
    obs_intercept: Operand | Kind | None = None,
    state_intercept: Operand | Kind | None = None,
    axis: int = -1,
    memory: Memory = "stream",
) -> Sample: ...
