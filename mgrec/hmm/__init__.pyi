from typing import Any

from ..distributed.groups.group import Group
from ..types import Kind, Memory, Operand
from .recurrence import ForwardBackward, ViterbiPath

def log_likelihood(
    startprob: Operand | Kind,
    transmat: Operand | Kind,
    log_frameprob: Operand | Kind,
    *,
    axis: int = -1,
    reset: Any = None,
    lengths: Any = None,
    memory: Memory = "stream",
    group: Group | None = None,
) -> Any: ...
def forward_backward(
    startprob: Operand | Kind,
    transmat: Operand | Kind,
    log_frameprob: Operand | Kind,
    *,
    axis: int = -1,
    reset: Any = None,
    lengths: Any = None,
    memory: Memory = "stream",
    group: Group | None = None,
) -> ForwardBackward: ...
def viterbi(
    startprob: Operand | Kind,
    transmat: Operand | Kind,
    log_frameprob: Operand | Kind,
    *,
    axis: int = -1,
    reset: Any = None,
    lengths: Any = None,
    memory: Memory = "stream",
    group: Group | None = None,
) -> ViterbiPath: ...
def sample(
    startprob: Operand | Kind,
    transmat: Operand | Kind,
    uniform: Operand | Kind,
    *,
    axis: int = -1,
    reset: Any = None,
    lengths: Any = None,
    memory: Memory = "stream",
) -> Any: ...
