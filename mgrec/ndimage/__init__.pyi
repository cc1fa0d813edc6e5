# As in the stub of mgrec, functions have overloads for NumPy arrays and for arrays of another type.
# fmt: off

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeVar, overload

from numpy.typing import NDArray

from ..distributed.groups.group import Group
from ..types import Kind, Numbers

A = TypeVar("A", bound=Kind)

@overload
def spline_filter1d(
    input: Numbers, order: int = 3, axis: int = -1, output: Any = ..., mode: str = "mirror", *,
    group: Group | None = None
) -> NDArray[Any]: ...
@overload
def spline_filter1d(
    input: A, order: int = 3, axis: int | str = -1, output: Any = ..., mode: str = "mirror", *,
    dim: Hashable = ..., group: Group | None = None
) -> A: ...
@overload
def spline_filter(
    input: Numbers, order: int = 3, output: Any = ..., mode: str = "mirror"
) -> NDArray[Any]: ...
@overload
def spline_filter(input: A, order: int = 3, output: Any = ..., mode: str = "mirror") -> A: ...
@overload
def gaussian_filter1d(
    input: Numbers, sigma: float, axis: int = -1, order: int = 0, output: Any = None, mode: str = "reflect",
    cval: complex = 0.0, *, group: Group | None = None
) -> NDArray[Any]: ...
@overload
def gaussian_filter1d(
    input: A, sigma: float, axis: int | str = -1, order: int = 0, output: Any = None, mode: str = "reflect",
    cval: complex = 0.0, *, dim: Hashable = ..., group: Group | None = None
) -> A: ...
@overload
def gaussian_filter(
    input: Numbers, sigma: float | Sequence[float], order: int | Sequence[int] = 0, output: Any = None,
    mode: str | Sequence[str] = "reflect", cval: complex = 0.0, *, axes: int | Iterable[int] | None = None
) -> NDArray[Any]: ...
@overload
def gaussian_filter(
    input: A, sigma: float | Sequence[float], order: int | Sequence[int] = 0, output: Any = None,
    mode: str | Sequence[str] = "reflect", cval: complex = 0.0, *, axes: int | Iterable[int] | None = None
) -> A: ...
@overload
def gaussian_laplace(
    input: Numbers, sigma: float | Sequence[float], output: Any = None, mode: str | Sequence[str] = "reflect",
    cval: complex = 0.0, *, axes: int | Iterable[int] | None = None
) -> NDArray[Any]: ...
@overload
def gaussian_laplace(
    input: A, sigma: float | Sequence[float], output: Any = None, mode: str | Sequence[str] = "reflect",
    cval: complex = 0.0, *, axes: int | Iterable[int] | None = None
) -> A: ...
@overload
def uniform_filter1d(
    input: Numbers, size: int, axis: int = -1, output: Any = None, mode: str = "reflect", cval: complex = 0.0,
    origin: int = 0, *, group: Group | None = None
) -> NDArray[Any]: ...
@overload
def uniform_filter1d(
    input: A, size: int, axis: int | str = -1, output: Any = None, mode: str = "reflect", cval: complex = 0.0,
    origin: int = 0, *, dim: Hashable = ..., group: Group | None = None
) -> A: ...
@overload
def uniform_filter(
    input: Numbers, size: int | Sequence[int] = 3, output: Any = None, mode: str | Sequence[str] = "reflect",
    cval: complex = 0.0, origin: int | Sequence[int] = 0, *, axes: int | Iterable[int] | None = None
) -> NDArray[Any]: ...
@overload
def uniform_filter(
    input: A, size: int | Sequence[int] = 3, output: Any = None, mode: str | Sequence[str] = "reflect",
    cval: complex = 0.0, origin: int | Sequence[int] = 0, *, axes: int | Iterable[int] | None = None
) -> A: ...
