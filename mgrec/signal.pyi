# As in the stub of mgrec, functions have overloads for NumPy arrays and for arrays of another type.
# fmt: off

from collections.abc import Hashable
from typing import Any, Literal, TypeVar, overload

from numpy.typing import NDArray

from .distributed.groups.group import Group
from .filters.causal import lfilter_zi as lfilter_zi
from .filters.causal import lfiltic as lfiltic
from .filters.causal import sosfilt_zi as sosfilt_zi
from .types import FilterMethod, Kind, Numbers, Padding, Statistic

ArrayLike = Numbers | Kind
A = TypeVar("A", bound=Kind)
_Form = Literal["transposed", "direct"]

@overload
def lfilter(
    b: ArrayLike, a: ArrayLike, x: Numbers, axis: int = -1, zi: None = None, *, form: _Form = "transposed",
    reset: Any = None, lengths: Any = None, out: NDArray[Any] | None = None, group: Group | None = None
) -> NDArray[Any]: ...
@overload
def lfilter(
    b: ArrayLike, a: ArrayLike, x: Numbers, axis: int = -1, *, zi: Numbers, form: _Form = "transposed",
    reset: Any = None, lengths: Any = None, out: NDArray[Any] | None = None, group: Group | None = None
) -> tuple[NDArray[Any], NDArray[Any]]: ...
@overload
def lfilter(
    b: ArrayLike, a: ArrayLike, x: A, axis: int | str = -1, zi: None = None, *, form: _Form = "transposed",
    reset: Any = None, lengths: Any = None, out: A | None = None, dim: Hashable = ...,
    group: Group | None = None
) -> A: ...
@overload
def lfilter(
    b: ArrayLike, a: ArrayLike, x: A, axis: int | str = -1, *, zi: Numbers | A, form: _Form = "transposed",
    reset: Any = None, lengths: Any = None, out: A | None = None, dim: Hashable = ...,
    group: Group | None = None
) -> tuple[A, Any]: ...
@overload
def sosfilt(
    sos: ArrayLike, x: Numbers, axis: int = -1, zi: None = None, *, reset: Any = None, lengths: Any = None,
    out: NDArray[Any] | None = None, group: Group | None = None
) -> NDArray[Any]: ...
@overload
def sosfilt(
    sos: ArrayLike, x: Numbers, axis: int = -1, *, zi: Numbers, reset: Any = None, lengths: Any = None,
    out: NDArray[Any] | None = None, group: Group | None = None
) -> tuple[NDArray[Any], NDArray[Any]]: ...
@overload
def sosfilt(
    sos: ArrayLike, x: A, axis: int | str = -1, zi: None = None, *, reset: Any = None, lengths: Any = None,
    out: A | None = None, dim: Hashable = ..., group: Group | None = None
) -> A: ...
@overload
def sosfilt(
    sos: ArrayLike, x: A, axis: int | str = -1, *, zi: Numbers | A, reset: Any = None, lengths: Any = None,
    out: A | None = None, dim: Hashable = ..., group: Group | None = None
) -> tuple[A, Any]: ...
@overload
def filtfilt(
    b: ArrayLike, a: ArrayLike, x: Numbers, axis: int = -1, padtype: Padding | None = "odd",
    padlen: int | None = None, method: FilterMethod = "pad", irlen: int | None = None, *, dtype: Any = None,
    assume_finite: bool = False, group: Group | None = None
) -> NDArray[Any]: ...
@overload
def filtfilt(
    b: ArrayLike, a: ArrayLike, x: A, axis: int | str = -1, padtype: Padding | None = "odd",
    padlen: int | None = None, method: FilterMethod = "pad", irlen: int | None = None, *, dtype: Any = None,
    assume_finite: bool = False, dim: Hashable = ..., group: Group | None = None
) -> A: ...
@overload
def sosfiltfilt(
    sos: ArrayLike, x: Numbers, axis: int = -1, padtype: Padding | None = "odd", padlen: int | None = None, *,
    dtype: Any = None, assume_finite: bool = False, group: Group | None = None
) -> NDArray[Any]: ...
@overload
def sosfiltfilt(
    sos: ArrayLike, x: A, axis: int | str = -1, padtype: Padding | None = "odd", padlen: int | None = None, *,
    dtype: Any = None, assume_finite: bool = False, dim: Hashable = ..., group: Group | None = None
) -> A: ...
@overload
def decimate(
    x: Numbers, q: int, n: int | None = None, ftype: Any = "iir", axis: int = -1, zero_phase: bool = True, *,
    dtype: Any = None, assume_finite: bool = False, group: Group | None = None
) -> NDArray[Any]: ...
@overload
def decimate(
    x: A, q: int, n: int | None = None, ftype: Any = "iir", axis: int | str = -1, zero_phase: bool = True, *,
    dtype: Any = None, assume_finite: bool = False, dim: Hashable = ..., group: Group | None = None
) -> A: ...
@overload
def ewm(
    x: Numbers, *, alpha: float | None = None, span: float | None = None, halflife: Any = None,
    com: float | None = None, adjust: bool = True, axis: int = -1, statistic: Statistic = "mean",
    other: Any = None, min_periods: int | None = 0, ignore_na: bool = False, times: Any = None,
    bias: bool = False, reset: Any = None, lengths: Any = None, group: Group | None = None
) -> NDArray[Any]: ...
@overload
def ewm(
    x: A, *, alpha: float | None = None, span: float | None = None, halflife: Any = None,
    com: float | None = None, adjust: bool = True, axis: int | str = -1, statistic: Statistic = "mean",
    other: Any = None, min_periods: int | None = 0, ignore_na: bool = False, times: Any = None,
    bias: bool = False, reset: Any = None, lengths: Any = None, dim: Hashable = ...,
    group: Group | None = None
) -> A: ...
