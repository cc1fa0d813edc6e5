"""The methods of a Dataset."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import xarray as xr

from ..algebra.transfer_map import TransferMap
from .along import as_labelled, checked_dim


@xr.register_dataset_accessor("mgrec")
class DatasetMethods:
    """Recurrences of the variables of a Dataset, by name, and filters of all its variables.

    Recurrences take names, DataArrays or numbers, and give a DataArray. Filters give a Dataset:
    variables that lack the dimension stay as they are.
    """

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    def _named(self, name: str, value: Any) -> Any:
        return as_labelled(name, value, self._dataset)

    def _array(self, name: str, value: Any) -> xr.DataArray:
        """The operand whose method is called: its dimensions come first."""
        found = self._named(name, value)
        if not isinstance(found, xr.DataArray):
            raise TypeError(f"{name} must be a variable's name or a DataArray; got {value!r}")
        return found

    def linear_recurrence(
        self, s: Any, t: Any, initial: Any = None, *, dim: Hashable | None = None, **options: Any
    ) -> xr.DataArray:
        """Solve w_i = s_i·w_{i-1} + t_i: :func:`mgrec.linear_recurrence`."""
        s, initial = self._named("s", s), self._named("initial", initial)
        return self._array("t", t).mgrec.linear_recurrence(s, initial, dim=dim, **options)

    def rational_recurrence(
        self,
        a: Any,
        b: Any,
        c: Any,
        d: Any,
        initial: Any,
        *,
        dim: Hashable | None = None,
        **options: Any,
    ) -> xr.DataArray:
        """Solve p_i = (a_i·p_{i-1} + b_i) / (c_i·p_{i-1} + d_i): :func:`mgrec.rational_recurrence`.

        b is a variable.
        """
        others = (self._named(name, value) for name, value in {"a": a, "c": c, "d": d}.items())
        initial = self._named("initial", initial)
        return self._array("b", b).mgrec.rational_recurrence(*others, initial, dim=dim, **options)

    def scan(
        self,
        transfer_map: TransferMap,
        first: Any,
        *operands: Any,
        initial: Any,
        dim: Hashable | None = None,
        **options: Any,
    ) -> Any:
        """Solve a recurrence of transfer maps, whose first operand is a variable.

        Several states come as a tuple of DataArrays; see :func:`mgrec.scan`.
        """
        others = (self._named(f"operand {k}", each) for k, each in enumerate(operands, 1))
        options["initial"] = self._named("initial", initial)
        return self._array("operand 0", first).mgrec.scan(transfer_map, *others, dim=dim, **options)

    def weighted_scan(
        self, x: Any, weights: Any, *, dim: Hashable | None = None, **options: Any
    ) -> xr.DataArray:
        """Accumulate all entries before each one, weighted: :func:`mgrec.weighted_scan`."""
        weights = self._named("weights", weights)
        return self._array("x", x).mgrec.weighted_scan(weights, dim=dim, **options)

    def solve_tridiagonal(
        self, dl: Any, d: Any, du: Any, b: Any, *, dim: Hashable | None = None, **options: Any
    ) -> xr.DataArray:
        """Solve tridiagonal systems: :func:`mgrec.solve_tridiagonal`. b is a variable."""
        named = {"dl": dl, "d": d, "du": du}
        diagonals = (self._named(name, value) for name, value in named.items())
        return self._array("b", b).mgrec.solve_tridiagonal(*diagonals, dim=dim, **options)

    def _each(self, method: str, dims: Sequence[Any], *given: Any, **options: Any) -> xr.Dataset:
        """Call a method of every variable that has the dimensions."""
        for dim in dims:
            checked_dim(dim, tuple(self._dataset.dims))

        def one(variable: xr.DataArray) -> xr.DataArray:
            has_all = set(dims) <= set(variable.dims)
            return getattr(variable.mgrec, method)(*given, **options) if has_all else variable

        return self._dataset.map(one, keep_attrs=True)

    def summed_area_table(self, dims: Sequence[Hashable] = (), **options: Any) -> xr.Dataset:
        """Sum over rectangles of every variable: :func:`mgrec.summed_area_table`."""
        if isinstance(dims, str) or len(dims) < 2:
            own = tuple(self._dataset.dims)
            raise ValueError(f"dims must be two or more of the dimensions {own}; got {dims!r}")
        return self._each("summed_area_table", dims, dims, **options)

    def lfilter(self, b: Any, a: Any, *, dim: Hashable | None = None) -> xr.Dataset:
        """Filter with a rational transfer function: :func:`mgrec.signal.lfilter`."""
        return self._each("lfilter", [dim], b, a, dim=dim)

    def sosfilt(self, sos: Any, *, dim: Hashable | None = None) -> xr.Dataset:
        """Filter with second-order sections: :func:`mgrec.signal.sosfilt`."""
        return self._each("sosfilt", [dim], sos, dim=dim)

    def filtfilt(
        self, b: Any, a: Any, *, dim: Hashable | None = None, **options: Any
    ) -> xr.Dataset:
        """Filter forward and backward: :func:`mgrec.signal.filtfilt`."""
        return self._each("filtfilt", [dim], b, a, dim=dim, **options)

    def sosfiltfilt(self, sos: Any, *, dim: Hashable | None = None, **options: Any) -> xr.Dataset:
        """Filter forward and backward by sections: :func:`mgrec.signal.sosfiltfilt`."""
        return self._each("sosfiltfilt", [dim], sos, dim=dim, **options)

    def ewm(self, *, dim: Hashable | None = None, **options: Any) -> xr.Dataset:
        """Exponentially weighted mean: :func:`mgrec.signal.ewm`."""
        return self._each("ewm", [dim], dim=dim, **options)
