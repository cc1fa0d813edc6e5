"""A recurrence and its arrays: what every public function makes of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..arrays.arguments import is_one_of
from ..arrays.kinds import is_lazy, is_on_gpu
from .recurrence import Arrays, Recurrence


def varying(own: tuple[Any, ...], shape: tuple[Any, ...]) -> tuple[bool, ...]:
    """Whether an array of a shape varies along each of its axes, broadcast to another."""
    if own == shape:
        return (True,) * len(own)
    wanted = shape[len(shape) - len(own) :]
    return tuple(have != 1 or want == 1 for have, want in zip(own, wanted, strict=True))


def first_result(results: Arrays, exit: Any) -> Any:
    """What most public functions return."""
    return results[0]


@dataclass(frozen=True)
class Problem:
    """A recurrence and its arrays, checked: what a public function makes of its arguments.

    Attributes
    ----------
    recurrence : Recurrence
    operands : tuple of arrays
        The blocks of a chunk are cut from them; they broadcast to `shape`.
    initial : tuple of arrays or scalars
        States before the first step: the recurrence's state_shape, then the rows, broadcast.
        Empty where none are given.
    shape : tuple of int or nan
        Of every result. nan where a Dask array does not know.
    memory : {"stream", "two-pass"}
        Of a Dask graph: see :func:`mgrec.linear_recurrence`.
    out : array, or tuple of arrays, optional
        Where to write the results.
    is_several : bool
        The result, and `out`, is a tuple.
    finish : callable, ``(results, exit) -> what the public function returns``
    """

    recurrence: Any
    operands: Arrays
    initial: Arrays
    shape: tuple[Any, ...]
    memory: str = "stream"
    out: Any = None
    is_several: bool = False
    finish: Callable[[Arrays, Any], Any] = first_result

    def __post_init__(self) -> None:
        if not is_one_of(self.memory, ("stream", "two-pass")):
            raise ValueError(f"memory must be 'stream' or 'two-pass'; got {self.memory!r}")
        is_on_host = not any(map(is_on_gpu, self.arrays))
        check_method(self.recurrence, is_on_host)
        if self.out is not None and self.is_lazy:
            raise TypeError("out must be None where an operand is a Dask array: results are lazy")

    @property
    def arrays(self) -> Arrays:
        return *self.operands, *self.initial

    @property
    def is_plain(self) -> bool:
        """The public function returns the results and nothing else."""
        return self.is_several or self.finish is first_result

    @property
    def is_lazy(self) -> bool:
        """An array is Dask's, and so are the results."""
        return any(map(is_lazy, self.operands)) or any(map(is_lazy, self.initial))


@dataclass(frozen=True)
class Composed:
    """What several recurrences solve, one after the other.

    Attributes
    ----------
    name : str
        For messages.
    solve : callable, ``() -> what the public function returns``
    """

    name: str
    solve: Callable[[], Any]


def check_method(recurrence: Recurrence, is_on_host: bool) -> None:
    """Raise unless a recurrence has the method that it is given, for arrays on this machine."""
    method = recurrence.method
    if not is_one_of(method, recurrence.methods):
        wanted = ", ".join(map(repr, recurrence.methods))
        raise ValueError(f"method must be one of {wanted}; got {method!r}")
    if is_on_host and method not in recurrence.host_methods:
        wanted = " or ".join(map(repr, recurrence.host_methods))
        raise ValueError(
            f"method must be {wanted} for arrays in host memory; got {method!r}, which names "
            f"kernels of a GPU"
        )
