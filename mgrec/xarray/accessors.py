"""The accessor ``.mgrec`` of DataArrays and of Datasets."""

from __future__ import annotations

from typing import Any

import xarray as xr

from ..solve.labelled import checked_dim
from .methods import FILTERS, RECURRENCES, check_dims, method_of, solve_by_name


@xr.register_dataarray_accessor("mgrec")
class DataArrayMethods:
    """Recurrences and filters along a dimension of a DataArray.

    Each method takes the arguments of the public function with the same name, except the array
    itself. `dim` replaces `axis`. :mod:`mgrec.xarray` describes operands.
    """

    def __init__(self, array: xr.DataArray) -> None:
        self._array = array

    def _solve(self, function: Any, arguments: dict[str, Any]) -> Any:
        array, data = self._array, {**RECURRENCES, **FILTERS}[function]
        if "axes" in arguments:
            check_dims(arguments["axes"], array.dims)
        further = arguments.get(data, ())  # operands of a scan
        value = (array, *further) if data == "operands" else array
        return solve_by_name(function, data, {**arguments, data: value}, array)


@xr.register_dataset_accessor("mgrec")
class DatasetMethods:
    """Recurrences of variables of a Dataset, by name, and filters of all its variables.

    Recurrences take names, DataArrays or numbers, and return a DataArray. Filters return a Dataset;
    variables without the dimension are unchanged.
    """

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    def _solve(self, function: Any, arguments: dict[str, Any]) -> Any:
        return solve_by_name(function, RECURRENCES[function], arguments, self._dataset)

    def _each(self, function: Any, arguments: dict[str, Any]) -> xr.Dataset:
        """Filter every variable that has the dimensions."""
        known = tuple(self._dataset.dims)
        if "axes" in arguments:
            check_dims(arguments["axes"], known)
        dims = arguments["axes"] if "axes" in arguments else [arguments["axis"]]
        for dim in dims:
            checked_dim(dim, known)

        def one(variable: xr.DataArray) -> xr.DataArray:
            if not set(dims) <= set(variable.dims):
                return variable
            data = FILTERS[function]
            return solve_by_name(function, data, {**arguments, data: variable}, self._dataset)

        return self._dataset.map(one, keep_attrs=True)


for _function, _data in {**RECURRENCES, **FILTERS}.items():
    _name = _function.__name__
    setattr(DataArrayMethods, _name, method_of(_function, _data, DataArrayMethods._solve))
for _function in RECURRENCES:
    setattr(DatasetMethods, _function.__name__, method_of(_function, None, DatasetMethods._solve))
for _function, _data in FILTERS.items():
    setattr(DatasetMethods, _function.__name__, method_of(_function, _data, DatasetMethods._each))
