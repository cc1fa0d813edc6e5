"""A checked call: a recurrence, its arrays, and how to build the public function's result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..arrays.array_types import is_lazy
from ..arrays.elements import Part
from ..arrays.validation import is_one_of
from ..backends import Backend, common_backend
from .recurrence import Arrays, Recurrence


def first_result(results: Arrays, final_state: Any) -> Any:
    """Return the first result, as most public functions do."""
    return results[0]


def check_memory(memory: Any) -> None:
    """Raise ValueError unless `memory` is "stream" or "two-pass"."""
    if not is_one_of(memory, ("stream", "two-pass")):
        raise ValueError(f"memory must be 'stream' or 'two-pass'; got {memory!r}")


@dataclass(frozen=True)
class Problem:
    """A recurrence and its arrays, checked: the arguments of a public function, validated.

    `operands`: they broadcast to `shape`; the blocks of a chunk are parts of them.
    `initial`, tuple of arrays or scalars: states before the first step: the recurrence's
      state_shape, then the rows, broadcast. Empty if the call has none.
    `shape`, tuple of int or nan: shape of every result; nan if a Dask array does not know its size.
    `is_several`: whether the result, and `out`, is a tuple.
    `to_return_value`, ``(results, final_state) -> return value``: build the return value of the
      public function.
    `parts`: what a plan returns in place of the result, if the caller needs its parts alone.
    `arguments`: what a prepared solver takes in place of the operands, which are views of these.
    """

    recurrence: Any
    operands: Arrays
    initial: Arrays
    shape: tuple[Any, ...]
    memory: str = "stream"
    out: Any = None
    is_several: bool = False
    to_return_value: Callable[[Arrays, Any], Any] = first_result
    parts: tuple[Part, ...] = ()
    arguments: Arrays = ()

    def __post_init__(self) -> None:
        check_memory(self.memory)
        check_method(self.recurrence, common_backend(self.arrays))
        if self.out is not None and self.is_lazy:
            raise TypeError("out must be None where an operand is a Dask array: results are lazy")

    @property
    def arrays(self) -> Arrays:
        return *self.operands, *self.initial

    @property
    def is_plain(self) -> bool:
        """Whether the public function returns the results and nothing else."""
        return self.is_several or self.to_return_value is first_result

    @property
    def is_lazy(self) -> bool:
        """Whether an argument is a Dask array; the results then are Dask arrays too."""
        return any(map(is_lazy, self.operands)) or any(map(is_lazy, self.initial))


@dataclass(frozen=True)
class Composed:
    """A call that solves several recurrences, one after the other.

    `solve`: ``() -> return value``.
    """

    name: str
    solve: Callable[[], Any]


def check_method(recurrence: Recurrence, backend: Backend) -> None:
    """Raise ValueError if the recurrence has no such method for arrays of a backend."""
    method = recurrence.method
    if not is_one_of(method, recurrence.methods):
        wanted = ", ".join(map(repr, recurrence.methods))
        raise ValueError(f"method must be one of {wanted}; got {method!r}")
    if not backend.names_kernels and method not in recurrence.host_methods:
        wanted = " or ".join(map(repr, recurrence.host_methods))
        raise ValueError(
            f"method must be {wanted} for arrays {backend.place}; got {method!r}, which names "
            f"kernels of a GPU"
        )
