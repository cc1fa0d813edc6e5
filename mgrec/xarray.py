"""Methods for xarray: ``import mgrec.xarray`` adds ``.mgrec`` to each DataArray and Dataset.

Public functions take DataArrays and `dim`, the name of a dimension, too. Operands of methods, and
`initial`, `other`, `times`, `reset` and `zi`, are numbers, DataArrays or names of coordinates (for
a Dataset, also of variables). DataArrays are aligned exactly and broadcast by their dimensions,
which costs no memory: an `s` of (y, x) broadcasts against data of (time, y, x).

Results have the dimensions of the data in their order, and the coordinates, the name and the chunks
of the data. Lazy data stay lazy. Results also have the attributes of the data, unless
``xarray.set_options(keep_attrs=False)`` is set. :ref:`guide-xarray` has more examples, among them
:func:`xarray.apply_ufunc`.

Examples
--------
>>> import numpy as np, xarray as xr, mgrec.xarray
>>> rain = xr.DataArray(
...     [[8.0, 0.0, 2.0], [4.0, 4.0, 0.0]], {"place": ["Oslo", "Rome"]}, ("place", "day")
... )
>>> kept = xr.DataArray([0.5, 0.25], {"place": ["Oslo", "Rome"]}, "place")
>>> rain.mgrec.linear_recurrence(kept, dim="day").values
array([[8.  , 4.  , 4.  ],
       [4.  , 5.  , 1.25]])
>>> weather = xr.Dataset({"rain": rain, "kept": kept})
>>> weather.mgrec.linear_recurrence("kept", "rain", dim="day").sel(place="Rome").values
array([4.  , 5.  , 1.25])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature, signature
from typing import Any

import xarray as xr

from . import ndimage, signal
from .banded.api import solve_banded
from .banded.blocks import solve_block_tridiagonal
from .core.algebra.coefficient import Coefficient
from .core.arrays.resets import replace_lengths
from .grids.table.api import summed_area_table
from .scans.functions import linear_recurrence, rational_recurrence, scan
from .scans.weighted import weighted_scan
from .solve.labelled import by_value_of, checked_dim
from .tridiagonal.api import solve_tridiagonal

__all__ = ["DataArrayMethods", "DatasetMethods"]

RECURRENCES: dict[Any, str] = {
    linear_recurrence: "t",
    rational_recurrence: "b",
    scan: "operands",
    weighted_scan: "x",
    solve_tridiagonal: "b",
    solve_banded: "b",
    solve_block_tridiagonal: "b",
}
"""Functions of several operands, and the name of the argument that is the data."""
FILTERS: dict[Any, str] = dict.fromkeys(
    (
        signal.lfilter,
        signal.sosfilt,
        signal.filtfilt,
        signal.sosfiltfilt,
        signal.decimate,
        signal.ewm,
        summed_area_table,
    ),
    "x",
) | dict.fromkeys((ndimage.spline_filter1d, ndimage.gaussian_filter1d, ndimage.uniform_filter1d), "input")
"""Functions of the data and of coefficients or options."""

_COORDINATES = ("reset", "times", "zi")
"""Arguments that may be names of coordinates, or arrays without names of dimensions."""
_AXES = {"dim": "axis", "dims": "axes", "rhs_dim": "rhs_axis"}
"""Arguments of methods, and their names in the public functions."""


def method_of(function: Any, data: str | None, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that calls a public function, with `dim` or `dims` in place of its axes.

    The method is called on the argument `data`, if there is one. It returns
    ``call(self, function, arguments)`` with arguments under the names that the function uses.
    """
    method_signature = _signature(function, data)

    def method(self: Any, *operands: Any, **options: Any) -> Any:
        bound = method_signature.bind(self, *operands, **options)
        bound.apply_defaults()
        arguments = {_AXES.get(name, name): value for name, value in bound.arguments.items()}
        return call(arguments.pop("self"), function, arguments)

    name = function.__name__
    modules = [module for module in (signal, ndimage) if hasattr(module, name)]
    module = modules[0].__name__ if modules else "mgrec"
    note = "" if data is None else f", where the array is `{data}`"
    summary, *_ = (function.__doc__ or name).splitlines()
    method.__doc__ = f"{summary}\n\nSee :func:`{module}.{name}`{note}.\n"
    method.__name__ = method.__qualname__ = name
    method.__signature__ = method_signature  # type: ignore[attr-defined]
    return method


def _signature(function: Any, data: str | None) -> Signature:
    """Return the signature of a method; arguments after its dimension are keyword-only."""
    parameters = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)]
    is_by_name = False
    for name, parameter in signature(function).parameters.items():
        if name == "axis":
            is_by_name = True
            parameter = Parameter("dim", Parameter.KEYWORD_ONLY, default=None)
        elif name == "axes":
            parameter = parameter.replace(name="dims", default=())
        elif name == "rhs_axis":
            parameter = parameter.replace(name="rhs_dim")
        elif name == data and parameter.kind is not Parameter.VAR_POSITIONAL:
            continue
        elif is_by_name:
            parameter = parameter.replace(kind=Parameter.KEYWORD_ONLY)
        parameters.append(parameter)
    return Signature(parameters)


def solve_by_name(
    function: Any, data: str, arguments: Mapping[str, Any], known: xr.DataArray | xr.Dataset
) -> Any:
    """Call a public function along dimensions, with operands by name.

    The dimensions of the argument `data` come first. `arguments` have the names that the function
    uses; axes are names of dimensions. Operands may name coordinates and variables of `known`.
    """
    labelled = function.labelled
    by_value = by_value_of(labelled)
    if "lengths" in arguments:
        arguments = {**arguments}
        replace_lengths(arguments)
    parameters = signature(function).parameters
    bound = signature(function).bind_partial()
    for name, parameter in parameters.items():
        if name not in arguments:
            continue
        value = arguments[name]
        if name in _COORDINATES:
            value = named(name, value, known) if isinstance(value, str) else value
        elif _is_operand(parameter) and name not in ("transfer_map", *by_value):
            value = as_operand(name, value, known)
        bound.arguments[name] = value
    array = bound.arguments[data]
    if parameters[data].kind is Parameter.VAR_POSITIONAL:
        array, data = (array[0] if array else None), f"the first of {data}"
    if not isinstance(array, xr.DataArray):
        raise TypeError(f"{data} must be the name of a variable or a DataArray; got {array!r}")
    return labelled(function, bound.args, bound.kwargs, like=array)


def _is_operand(parameter: Parameter) -> bool:
    return parameter.default is Parameter.empty or parameter.name in ("initial", "other")


def named(name: str, value: str, known: xr.DataArray | xr.Dataset) -> xr.DataArray:
    """Return the variable or the coordinate with a name."""
    variables = known if isinstance(known, xr.Dataset) else known.coords
    if value not in variables:
        raise ValueError(f"{name} must be one of {sorted(map(str, variables))}; got {value!r}")
    return variables[value]


def as_operand(name: str, value: Any, known: xr.DataArray | xr.Dataset) -> Any:
    """Return a number, a DataArray, a Coefficient of these, or the variable with a name."""
    if isinstance(value, str):
        return named(name, value, known)
    if isinstance(value, tuple) and name in ("initial", "operands"):
        return tuple(as_operand(name, item, known) for item in value)
    arrays = value.arrays if isinstance(value, Coefficient) else (value,)
    for array in arrays:
        if getattr(array, "ndim", 0) and not isinstance(array, xr.DataArray):
            raise TypeError(
                f"{name} must be a number, a DataArray or a name, so that its dimensions are "
                f"known; got {type(value).__name__}: pass xarray.DataArray({name}, dims=...)"
            )
    if isinstance(value, (tuple, list, dict, xr.Dataset)):
        raise TypeError(f"{name} must be a number, a DataArray or a name; got {type(value).__name__}")
    return value


def check_dims(dims: Any, known: tuple[Any, ...]) -> None:
    """Raise unless a table has at least two dimensions."""
    if not isinstance(dims, (tuple, list)) or len(dims) < 2:
        raise ValueError(f"dims must be two or more of the dimensions {known}; got {dims!r}")


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
        others = arguments.get(data, ())  # operands of a scan
        value = (array, *others) if data == "operands" else array
        return solve_by_name(function, data, {**arguments, data: value}, array)


@xr.register_dataset_accessor("mgrec")
class DatasetMethods:
    """Recurrences of variables of a Dataset, by name, and filters of all its variables.

    Recurrences take names, DataArrays or numbers, and return a DataArray. Filters return a Dataset;
    variables without the dimension are unchanged, and the others are left out if they are not
    numbers, as in xarray's reductions.
    """

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    def _solve(self, function: Any, arguments: dict[str, Any]) -> Any:
        return solve_by_name(function, RECURRENCES[function], arguments, self._dataset)

    def _filter_variables(self, function: Any, arguments: dict[str, Any]) -> xr.Dataset:
        """Filter every variable of numbers that has the dimensions."""
        known = tuple(self._dataset.dims)
        if "axes" in arguments:
            check_dims(arguments["axes"], known)
        dims = arguments["axes"] if "axes" in arguments else [arguments["axis"]]
        for dim in dims:
            checked_dim(dim, known, "each of dims" if "axes" in arguments else "dim")

        data = FILTERS[function]
        others = [
            name
            for name, variable in self._dataset.data_vars.items()
            if set(dims) <= set(variable.dims) and variable.dtype.kind in "OSUMm"
        ]

        def filtered(variable: xr.DataArray) -> xr.DataArray:
            if not set(dims) <= set(variable.dims):
                return variable
            return solve_by_name(function, data, {**arguments, data: variable}, self._dataset)

        return self._dataset.drop_vars(others).map(filtered, keep_attrs=True)


for _function, _data in {**RECURRENCES, **FILTERS}.items():
    _of_dataset: Any = (_data, DatasetMethods._filter_variables)
    if _function in RECURRENCES:
        _of_dataset = (None, DatasetMethods._solve)
    _name = _function.__name__
    setattr(DataArrayMethods, _name, method_of(_function, _data, DataArrayMethods._solve))
    setattr(DatasetMethods, _name, method_of(_function, *_of_dataset))
