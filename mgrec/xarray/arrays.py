"""The methods of a DataArray."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import xarray as xr

from .. import signal
from ..algebra.transfer_map import TransferMap
from ..recurrences.custom import scan
from ..recurrences.linear import linear_recurrence
from ..recurrences.rational import rational_recurrence
from ..recurrences.tables import summed_area_table
from ..recurrences.tridiagonal import solve_tridiagonal
from ..recurrences.weighted import weighted_scan
from .along import as_labelled, checked_dim, named_like, solve_along


@xr.register_dataarray_accessor("mgrec")
class DataArrayMethods:
    """Recurrences and filters along a dimension of a DataArray.

    Each method takes what the function of its name takes, with `dim` in place of `axis`, and
    coefficients as :mod:`mgrec.xarray` says. `options` are those of the function but `out`.
    """

    def __init__(self, array: xr.DataArray) -> None:
        self._array = array

    def _solve(self, function: Any, dim: Any, operands: dict[str, Any], options: Any) -> Any:
        """Call a function of operands, among them the array itself."""
        own = [as_labelled(name, value, self._array) for name, value in operands.items()]
        if "initial" in options:
            options["initial"] = as_labelled("initial", options["initial"], self._array)
        return solve_along(function, dim, self._array, own, options)

    def linear_recurrence(
        self, s: Any, initial: Any = None, *, dim: Hashable | None = None, **options: Any
    ) -> xr.DataArray:
        """Solve w_i = s_i·w_{i-1} + t_i, where the array is t: :func:`mgrec.linear_recurrence`."""
        options["initial"] = initial
        return self._solve(linear_recurrence, dim, {"s": s, "t": self._array}, options)

    def rational_recurrence(
        self, a: Any, c: Any, d: Any, initial: Any, *, dim: Hashable | None = None, **options: Any
    ) -> xr.DataArray:
        """Solve p_i = (a_i·p_{i-1} + b_i) / (c_i·p_{i-1} + d_i), where the array is b.

        See :func:`mgrec.rational_recurrence`.
        """
        operands = {"a": a, "b": self._array, "c": c, "d": d}
        return self._solve(rational_recurrence, dim, operands, {"initial": initial, **options})

    def scan(
        self,
        transfer_map: TransferMap,
        *operands: Any,
        initial: Any,
        dim: Hashable | None = None,
        **options: Any,
    ) -> Any:
        """Solve a recurrence of transfer maps, whose first operand is the array.

        Several states come as a tuple of DataArrays; see :func:`mgrec.scan`.
        """

        def solve(*arrays: Any, **plain: Any) -> Any:
            return scan(transfer_map, *arrays, **plain)

        named = {f"operand {k}": each for k, each in enumerate((self._array, *operands))}
        return self._solve(solve, dim, named, {"initial": initial, **options})

    def weighted_scan(
        self, weights: Any, *, dim: Hashable | None = None, **options: Any
    ) -> xr.DataArray:
        """Accumulate all entries before each one, weighted: :func:`mgrec.weighted_scan`."""
        operands = {"x": self._array, "weights": weights}
        return self._solve(weighted_scan, dim, operands, options)

    def solve_tridiagonal(
        self, dl: Any, d: Any, du: Any, *, dim: Hashable | None = None, **options: Any
    ) -> xr.DataArray:
        """Solve tridiagonal systems whose right-hand sides are the array.

        See :func:`mgrec.solve_tridiagonal`.
        """
        operands = {"dl": dl, "d": d, "du": du, "b": self._array}
        return self._solve(solve_tridiagonal, dim, operands, options)

    def summed_area_table(self, dims: Sequence[Hashable] = (), **options: Any) -> xr.DataArray:
        """Sum over all rectangles that begin at the first corner: :func:`mgrec.summed_area_table`.

        Parameters
        ----------
        dims : sequence of hashable
            Two dimensions or more, down and to the right last.
        **options
            Of that function.
        """
        own = self._array.dims
        if isinstance(dims, str) or len(dims) < 2:
            raise ValueError(f"dims must be two or more of the dimensions {own}; got {dims!r}")
        axes = tuple(own.index(checked_dim(dim, own)) for dim in dims)
        table = xr.apply_ufunc(
            lambda x: summed_area_table(x, axes=axes, **options),
            self._array,
            dask="allowed",
            keep_attrs=True,
        )
        return named_like(self._array, table)

    def _filter(self, function: Callable[..., Any], dim: Any, *options: Any, **named: Any) -> Any:
        def filtered(x: Any, axis: int, **plain: Any) -> Any:
            return function(*options, x, axis=axis, **plain)

        return self._solve(filtered, dim, {"x": self._array}, named)

    def lfilter(self, b: Any, a: Any, *, dim: Hashable | None = None) -> xr.DataArray:
        """Filter with a rational transfer function: :func:`mgrec.signal.lfilter`."""
        return self._filter(signal.lfilter, dim, b, a)

    def sosfilt(self, sos: Any, *, dim: Hashable | None = None) -> xr.DataArray:
        """Filter with second-order sections: :func:`mgrec.signal.sosfilt`."""
        return self._filter(signal.sosfilt, dim, sos)

    def filtfilt(
        self, b: Any, a: Any, *, dim: Hashable | None = None, **options: Any
    ) -> xr.DataArray:
        """Filter forward and backward: :func:`mgrec.signal.filtfilt`."""
        return self._filter(signal.filtfilt, dim, b, a, **options)

    def sosfiltfilt(self, sos: Any, *, dim: Hashable | None = None, **options: Any) -> xr.DataArray:
        """Filter forward and backward by sections: :func:`mgrec.signal.sosfiltfilt`."""
        return self._filter(signal.sosfiltfilt, dim, sos, **options)

    def ewm(self, *, dim: Hashable | None = None, **options: Any) -> xr.DataArray:
        """Exponentially weighted mean: :func:`mgrec.signal.ewm`."""
        return self._filter(signal.ewm, dim, **options)
