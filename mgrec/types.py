"""Types of arguments and results, for annotations of your own and for type checkers.

NumPy arrays, numbers and sequences of them give NumPy arrays. Arrays of one other kind give arrays
of that kind: a type variable bound to :data:`Kind` stands for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from .algebra.coefficient import Coefficient

__all__ = [
    "Columns",
    "DlpackArray",
    "FilterMethod",
    "GpuMethod",
    "Kind",
    "Labelled",
    "LazyArray",
    "Memory",
    "Mode",
    "Numbers",
    "Operand",
    "Operator",
    "Output",
    "Padding",
    "Statistic",
    "Strategy",
    "TridiagonalMethod",
    "WeightedOperators",
]


class DlpackArray(Protocol):
    """An array of CuPy, torch, jax or another library that hands its memory over by DLPack."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any:
        """What DLPack hands over."""


class LazyArray(Protocol):
    """An array of Dask."""

    def rechunk(self, *args: Any, **kwargs: Any) -> Any:
        """The same array in other chunks."""


class Columns(Protocol):
    """A series or a table of pandas, cuDF or Dask."""

    @property
    def index(self) -> Any:
        """The labels of its rows."""

    def astype(self, *args: Any, **kwargs: Any) -> Any:
        """The same in another dtype."""


class Labelled(Protocol):
    """A DataArray of xarray."""

    @property
    def dims(self) -> Any:
        """The names of its dimensions."""


Kind = DlpackArray | LazyArray | Columns | Labelled
"""An array of another kind than NumPy's: results are of the same kind."""
Numbers = complex | np.generic | np.ndarray[Any, Any] | Sequence[Any]
"""What NumPy makes an array of."""
Operand = Numbers | Coefficient
"""An operand of a recurrence that gives a NumPy array."""

Memory = Literal["stream", "two-pass"]
GpuMethod = Literal["auto", "single-pass", "p-scheme"]
TridiagonalMethod = Literal["auto", "partition", "thomas", "cyclic-reduction", "pcr", "p-scheme"]
Statistic = Literal["mean", "sum", "var", "std", "cov", "corr"]
FilterMethod = Literal["pad", "gust"]
Padding = Literal["odd", "even", "constant"]
Strategy = Literal["tiles", "hyperplane", "compensation", "hybrid"]
Mode = Literal["local", "global", "semi-global"]
Output = Literal["score", "matrix", "alignment"]
Operator = Literal["+", "*", "max", "min"] | Callable[[Any, Any], Any]
WeightedOperators = (
    tuple[Literal["+"], Literal["*"]]
    | tuple[Literal["max"], Literal["+"]]
    | tuple[Literal["min"], Literal["+"]]
    | tuple[Literal["+"], Literal["+"]]
)
