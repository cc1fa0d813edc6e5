"""Types of arguments and results, for annotations in your own code and for type checkers.

NumPy arrays, numbers and sequences of them return NumPy arrays. Arrays of another type return
arrays of that type, which a type variable bound to :data:`Kind` represents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from .core.algebra.coefficient import Coefficient

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
    """An array of CuPy, torch, jax or another library that supports DLPack."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any:
        """Return a DLPack capsule of the array."""


class LazyArray(Protocol):
    """A Dask array."""

    def rechunk(self, *args: Any, **kwargs: Any) -> Any:
        """Return the same array with other chunks."""


class Columns(Protocol):
    """A Series or a DataFrame of pandas, cuDF or Dask."""

    @property
    def index(self) -> Any:
        """Labels of the rows."""

    def astype(self, *args: Any, **kwargs: Any) -> Any:
        """Return a copy with another dtype."""


class Labelled(Protocol):
    """A DataArray of xarray."""

    @property
    def dims(self) -> Any:
        """Names of the dimensions."""


Kind = DlpackArray | LazyArray | Columns | Labelled
"""An array of another type than NumPy's; results have the same type."""
Numbers = complex | np.generic | np.ndarray[Any, Any] | Sequence[Any]
"""Values that NumPy converts to an array."""
Operand = Numbers | Coefficient
"""An operand of a recurrence whose result is a NumPy array."""

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
