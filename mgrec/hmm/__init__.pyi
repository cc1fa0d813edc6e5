# As in the stub of mgrec, functions have overloads for NumPy arrays and for arrays of another type.
# fmt: off

from collections.abc import Hashable
from typing import Any, TypeVar, overload

from numpy.typing import NDArray

from ..distributed.groups.group import Group
from ..types import Columns, DlpackArray, Kind, LazyArray, Memory, Numbers
from .recurrence import ForwardBackward, ViterbiPath

ArrayLike = Numbers | Kind
A = TypeVar("A", bound=Kind)
T = TypeVar("T", bound=DlpackArray | LazyArray)

@overload
def log_likelihood(
    startprob: Numbers, transmat: Numbers, log_frameprob: Numbers, *, axis: int = -1, reset: Any = None,
    lengths: Any = None, memory: Memory = "stream", group: Group | None = None
) -> Any: ...
@overload
def log_likelihood(
    startprob: Numbers | T, transmat: Numbers | T, log_frameprob: Numbers, *, axis: int = -1,
    reset: Any = None, lengths: Any = None, memory: Memory = "stream", group: Group | None = None
) -> T: ...
@overload
def log_likelihood(
    startprob: ArrayLike, transmat: ArrayLike, log_frameprob: T, *, axis: int = -1, reset: Any = None,
    lengths: Any = None, memory: Memory = "stream", group: Group | None = None
) -> T: ...
@overload
def log_likelihood(
    startprob: ArrayLike, transmat: ArrayLike, log_frameprob: Kind, *, axis: int | str = -1,
    reset: Any = None, lengths: Any = None, memory: Memory = "stream", dim: Hashable = ...,
    group: Group | None = None
) -> Any: ...
@overload
def forward_backward(
    startprob: Numbers, transmat: Numbers, log_frameprob: Numbers, *, axis: int = -1, reset: Any = None,
    lengths: Any = None, memory: Memory = "stream", group: Group | None = None
) -> ForwardBackward[NDArray[Any]]: ...
@overload
def forward_backward(
    startprob: Numbers | A, transmat: Numbers | A, log_frameprob: Numbers, *, axis: int = -1,
    reset: Any = None, lengths: Any = None, memory: Memory = "stream", group: Group | None = None
) -> ForwardBackward[A]: ...
@overload
def forward_backward(
    startprob: ArrayLike, transmat: ArrayLike, log_frameprob: A, *, axis: int | str = -1, reset: Any = None,
    lengths: Any = None, memory: Memory = "stream", dim: Hashable = ..., group: Group | None = None
) -> ForwardBackward[A]: ...
@overload
def viterbi(
    startprob: Numbers, transmat: Numbers, log_frameprob: Numbers, *, axis: int = -1, reset: Any = None,
    lengths: Any = None, memory: Memory = "stream", group: Group | None = None
) -> ViterbiPath[NDArray[Any]]: ...
@overload
def viterbi(
    startprob: Numbers | A, transmat: Numbers | A, log_frameprob: Numbers, *, axis: int = -1,
    reset: Any = None, lengths: Any = None, memory: Memory = "stream", group: Group | None = None
) -> ViterbiPath[A]: ...
@overload
def viterbi(
    startprob: ArrayLike, transmat: ArrayLike, log_frameprob: Columns, *, axis: int = -1, reset: Any = None,
    lengths: Any = None, memory: Memory = "stream", group: Group | None = None
) -> ViterbiPath[Any]: ...
@overload
def viterbi(
    startprob: ArrayLike, transmat: ArrayLike, log_frameprob: A, *, axis: int | str = -1, reset: Any = None,
    lengths: Any = None, memory: Memory = "stream", dim: Hashable = ..., group: Group | None = None
) -> ViterbiPath[A]: ...
@overload
def sample(
    startprob: Numbers, transmat: Numbers, uniform: Numbers, *, axis: int = -1, reset: Any = None,
    lengths: Any = None, memory: Memory = "stream"
) -> NDArray[Any]: ...
@overload
def sample(
    startprob: Numbers | A, transmat: Numbers | A, uniform: Numbers, *, axis: int = -1, reset: Any = None,
    lengths: Any = None, memory: Memory = "stream"
) -> A: ...
@overload
def sample(
    startprob: ArrayLike, transmat: ArrayLike, uniform: A, *, axis: int | str = -1, reset: Any = None,
    lengths: Any = None, memory: Memory = "stream", dim: Hashable = ...
) -> A: ...
