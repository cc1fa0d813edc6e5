"""Call public functions with DataArrays: align operands by name, label the results.

Functions import xarray: their caller has passed a DataArray, and so has imported it. The default
axis of DataFrames is also here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from inspect import BoundArguments, Parameter, Signature, signature
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.arrays.interop import is_table, library_of, to_native
from ..core.arrays.validation import as_axis
from ..distributed.expressions import leaves, mapped

if TYPE_CHECKING:
    from xarray import DataArray

Dims = tuple[Hashable, ...]

_STATES = {"b": ("state",), "sos": ("section", "state")}
"""Default names of the state dimensions of a filter, by the parameter of its coefficients."""

_NOT_BROADCAST = {"initial", "zi", "times", "reset", "above", "left", "corner"}
"""Arguments that do not determine the shape of the result."""

_DIMS = {"axis": "dim", "axes": "dims", "rhs_axis": "rhs_dim"}
"""Axes of public functions, and the arguments that name dimensions instead."""


def solve_labelled(
    function: Callable[..., Any],
    operands: Sequence[Any],
    options: Mapping[str, Any],
    *,
    by_value: Sequence[str] = (),
    like: DataArray | None = None,
) -> Any:
    """Call a public function of arrays with DataArrays, and return DataArrays.

    DataArrays are aligned exactly and broadcast by the names of their dimensions. The result has
    the dimensions of the reference, then others. The reference is `like`, or the first DataArray
    with the most dimensions. If no operand has a dimension, the results are arrays.

    `by_value`: parameters whose dimensions are not those of the data: coefficients of a filter.
    `like`: data of a method. Axes are then names of dimensions, and the result has the name, the
      attributes and the chunks of the data. Otherwise axes are names, or numbers that count the
      dimensions of the reference, and the result has the name and attributes that all operands
      share.
    """
    bound, by_name = bind(function, operands, options)
    arguments = bound.arguments
    for name in by_value:
        arguments[name] = to_native(name, arguments[name])
    by_argument = {name: list(filter(is_labelled, leaves(value))) for name, value in arguments.items()}
    if by_argument.get("out"):
        raise TypeError("out must be an array without names of dimensions; got a DataArray")
    if like is None and not any(leaf.dims for leaf in _operands(by_argument)):
        if by_name:
            raise ValueError(f"{by_name[0]} must name a dimension of an operand; got none with any")
        return _unlabelled(function, bound)
    return _Call(function, bound, by_argument, like, by_name).solve()


def refuse_labelled(function: Callable[..., Any], operands: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Raise TypeError for a function whose arguments have axes of states."""
    raise TypeError(
        f"arguments of {function.__name__} must be arrays without names of dimensions; got a "
        f"DataArray: pass its data"
    )


def _operands(by_argument: Mapping[str, list[Any]]) -> list[Any]:
    """Return the DataArrays that determine the shape of the result."""
    return [leaf for name, labelled in by_argument.items() if name not in _NOT_BROADCAST for leaf in labelled]


def is_labelled(value: Any) -> bool:
    library = library_of(value)
    return library is not None and library.name == "xarray"


def by_value_of(labelled: Callable[..., Any]) -> Sequence[str]:
    """Return the parameters of a function whose axes are not those of its data."""
    of_partial: dict[str, Any] = getattr(labelled, "keywords", {})
    by_value: Sequence[str] = getattr(labelled, "by_value", of_partial.get("by_value", ()))
    return by_value


def has_labels(arguments: Any) -> bool:
    """Return whether there are DataArrays among arguments."""
    return any(map(is_labelled, leaves(arguments)))


def with_table_axis(
    function: Callable[..., Any], operands: Sequence[Any], options: dict[str, Any], by_value: Sequence[str]
) -> dict[str, Any]:
    """Return the options of a call; the default axis of DataFrames is their index.

    `by_value` are parameters whose axes are not those of the data.
    """
    others = {*_NOT_BROADCAST, *by_value}
    bound = _signature(function).bind(*operands, **options)
    data = [value for name, value in bound.arguments.items() if name not in others]
    is_default = "axis" in _signature(function).parameters and "axis" not in bound.arguments
    return {**options, "axis": -2} if is_default and any(map(is_table, leaves(data))) else options


@lru_cache(maxsize=256)
def naming_parameters(function: Callable[..., Any]) -> set[str]:
    """Return the parameters whose arrays give the result its name: operands, but not states."""
    return {
        name
        for name, parameter in _signature(function).parameters.items()
        if name == "other"
        or (
            name != "initial"
            and parameter.kind is not Parameter.KEYWORD_ONLY
            and parameter.default is Parameter.empty
        )
    }


def bind(
    function: Callable[..., Any], operands: Sequence[Any], options: Mapping[str, Any]
) -> tuple[BoundArguments, list[str]]:
    """Return the arguments of a call, and those among `dim`, `dims` and `rhs_dim` that are given.

    These replace axes. The arguments have no `axis` if neither is given.
    """
    by_name = [dim for axis, dim in _DIMS.items() if dim in options]
    axes = {dim: axis for axis, dim in _DIMS.items() if axis in _signature(function).parameters}
    renamed = {axes.get(name, name): value for name, value in options.items()}
    if len(renamed) < len(options):
        raise TypeError(f"{by_name[0]} must not be given together with the axis that it replaces")
    bound = _signature(function).bind(*operands, **renamed)
    has_axis = "axis" in bound.arguments
    bound.apply_defaults()
    if not has_axis:
        bound.arguments.pop("axis", None)
    return bound, by_name


def axis_of(value: Any, dims: Dims, shape: tuple[int, ...], label: str, is_name: bool) -> int:
    """Return the axis of a dimension, by its name or, unless `is_name`, by its number."""
    if is_name or isinstance(value, str):
        return dims.index(checked_dim(value, dims, label))
    return as_axis(value, shape, label)


def default_axis(dims: Dims) -> int:
    """Return the axis of the only dimension; raise ValueError if there are several."""
    if len(dims) != 1:
        raise ValueError(f"dim must be one of the dimensions {dims}, since there is more than one; got none")
    return 0


@lru_cache(maxsize=256)
def _signature(function: Callable[..., Any]) -> Signature:
    return signature(function)


def _unlabelled(function: Callable[..., Any], bound: BoundArguments) -> Any:
    """Call a function with the arrays of DataArrays, ignoring their dimensions."""
    from xarray import DataArray

    bound.arguments.update(mapped(dict(bound.arguments), DataArray, lambda leaf: leaf.data))
    return function(*bound.args, **bound.kwargs)


class _Call:
    """A call with DataArrays, at least one of which has a dimension."""

    def __init__(
        self,
        function: Callable[..., Any],
        bound: BoundArguments,
        by_argument: dict[str, list[Any]],
        like: DataArray | None,
        by_name: Sequence[str],
    ) -> None:
        self.function, self.bound, self.like = function, bound, like
        self.states = by_argument.pop("zi", [])
        self.by_argument = by_argument
        labelled = [leaf for arrays in by_argument.values() for leaf in arrays]
        self.reference: Any = like
        if like is None:
            self.reference = max(_operands(by_argument), key=lambda leaf: leaf.ndim)
        # Keyed by identity, since == of DataArrays is an array.
        self.labelled = {id(leaf): leaf for leaf in (self.reference, *labelled)}
        self.dims: Dims = tuple(dict.fromkeys(dim for leaf in self.labelled.values() for dim in leaf.dims))
        self.axes = {
            name: self._to_axes(name, dim, like is not None or dim in by_name)
            for name, dim in _DIMS.items()
            if name in _signature(function).parameters
        }
        self.missing_axes = self._missing_axes()
        self._check()

    def _to_axes(self, name: str, dim: str, is_name: bool) -> tuple[int, ...]:
        """Replace an argument by axes, 0 or more, and return them; `dim` is its name in methods."""
        if name not in self.bound.arguments:
            self.bound.arguments[name] = default_axis(self.dims)
        value = self.bound.arguments[name]
        if value is None and name != "axis":
            return ()
        values = value if isinstance(value, (tuple, list)) and name == "axes" else (value,)
        if not is_name and not all(isinstance(value, str) for value in values):
            self._check_reference()
        label = dim if is_name else name
        label = f"each of {label}" if name == "axes" else label
        axes = tuple(axis_of(v, self.dims, self.reference.shape, label, is_name) for v in values)
        self.bound.arguments[name] = axes if name == "axes" else axes[0]
        return axes

    def _check_reference(self) -> None:
        """Raise ValueError unless axes can be counted."""
        if len(self.dims) > self.reference.ndim:
            raise ValueError(
                f"one DataArray must have all dimensions, {self.dims}, so that axes can be "
                f"counted; got {self.reference.dims} at most: name dimensions, or call "
                f"xarray.broadcast first"
            )

    def _missing_axes(self) -> dict[str, tuple[int, ...]]:
        """Return for each argument the axes of the result that it must not have."""
        missing = {"initial": self.axes.get("axis", ())}
        missing |= dict.fromkeys(("dl", "d", "du"), self.axes.get("rhs_axis", ()))
        if "above" in self.bound.arguments and len(self.axes["axes"]) == 2:
            down, right = self.axes["axes"]
            missing |= {"above": (down,), "left": (right,), "corner": (down, right)}
        return missing

    def _check(self) -> None:
        """Raise ValueError if an argument has a wrong dimension, or lacks a required one."""
        for name, labelled in self.by_argument.items():
            for leaf in labelled:
                for dim in (self.dims[axis] for axis in self.missing_axes.get(name, ())):
                    check_lacks(name, leaf, dim)
        dim = self.dim
        for leaf in self.by_argument.get("times", []):
            if leaf.dims != (dim,):
                raise ValueError(f"times must have the dimension {dim!r} alone; got {leaf.dims}")
        for leaf in self.by_argument.get("reset", []):
            if dim not in leaf.dims:
                raise ValueError(f"reset must have the dimension {dim!r}; got {leaf.dims}")

    @property
    def dim(self) -> Hashable:
        """The dimension along which the function computes; None for grids."""
        return self.dims[self.axes["axis"][0]] if "axis" in self.axes else None

    def solve(self) -> Any:
        """Return the labelled results of the function."""
        import xarray as xr

        state_dims = self._take_states()
        result: Any = None

        def solve(*arrays: Any) -> Any:
            nonlocal result
            result = self._call(arrays)
            first = result[0] if isinstance(result, tuple) else result
            self._check_shape(first.shape)
            # Factors are not an array: zeros get the labels of their diagonals.
            return np.broadcast_to(0.0, first.shape) if hasattr(first, "labels") else first

        first = xr.apply_ufunc(
            solve,
            *(chunked_like(leaf, self.like) for leaf in self.labelled.values()),
            join="exact",
            dask="allowed",
            keep_attrs=_attrs_rule("override"),
        )
        first = named_like(first, self._named_operands() if self.like is None else [self.like])
        if hasattr(result, "labels"):
            result.labels = first
            return result
        if not isinstance(result, tuple):
            return first
        if state_dims:
            return first, self._states_of(result[1], first, state_dims)
        return (first, *(first.copy(data=array) for array in result[1:]))

    def _call(self, arrays: Sequence[Any]) -> Any:
        from xarray import DataArray

        by_leaf, arguments = dict(zip(self.labelled, arrays, strict=True)), self.bound.arguments
        for name in self.by_argument:

            def to_argument(leaf: Any, name: str = name) -> Any:
                return self._to_argument(name, by_leaf[id(leaf)])

            arguments[name] = mapped(arguments[name], DataArray, to_argument)
        return self.function(*self.bound.args, **self.bound.kwargs)

    def _to_argument(self, name: str, array: Any) -> Any:
        """Return an aligned array without the axes of length 1 that the argument must not have."""
        if name == "times":
            return array.reshape(-1)
        missing = [axis - len(self.dims) for axis in self.missing_axes.get(name, ())]
        if not missing or array.ndim == 0:
            return array
        return array[tuple(0 if k in missing else slice(None) for k in range(-array.ndim, 0))]

    def _check_shape(self, shape: tuple[Any, ...]) -> None:
        sizes = {dim: size for leaf in self.labelled.values() for dim, size in leaf.sizes.items()}
        pairs = [(sizes[dim], size) for dim, size in zip(self.dims, shape, strict=False)]
        if len(shape) != len(self.dims) or any(a != b for a, b in pairs if a == a and b == b):
            raise ValueError(
                f"DataArrays must have all dimensions of the result; got {self.dims}, and a result "
                f"of shape {shape}: pass the other arrays as DataArrays too"
            )

    def _named_operands(self) -> list[Any]:
        """Return the DataArrays that give the result its name and attributes."""
        naming = naming_parameters(self.function)
        operands = [
            leaf for name, labelled in self.by_argument.items() if name in naming for leaf in labelled
        ]
        return operands or [self.reference]

    def _take_states(self) -> Dims:
        """Align `zi` with the rows; return its state dimensions, or () if there is no `zi`."""
        if self.bound.arguments.get("zi") is None:
            return ()
        names = next(dims for name, dims in _STATES.items() if name in self.bound.arguments)
        if not self.states:
            return names
        import xarray as xr

        rows, (states,) = self._rows(self.reference), self.states
        check_lacks("zi", states, self.dim)
        dims = tuple(dim for dim in states.dims if dim not in rows.dims)
        if len(dims) != len(names):
            raise ValueError(
                f"zi must have the dimensions {rows.dims} and {len(names)} more, such as {names}; "
                f"got {states.dims}"
            )
        rows, states = xr.align(rows, states, join="exact", copy=False)
        states, _ = xr.broadcast(states, rows)
        self.bound.arguments["zi"] = states.transpose(*self._order(dims)).data
        return dims

    def _order(self, dims: Dims) -> Dims:
        """Return the dimensions of states: sections first, the last one in place of the steps."""
        return *dims[:-1], *(dims[-1] if dim == self.dim else dim for dim in self.dims)

    def _rows(self, like: Any) -> Any:
        """Return zeros with the labels of a DataArray, without those of the steps."""
        from xarray import DataArray

        coords = like.coords.to_dataset().drop_dims(self.dim, errors="ignore").coords
        sizes = {dim: size for dim, size in like.sizes.items() if dim != self.dim}
        return DataArray(np.broadcast_to(0.0, tuple(sizes.values())), coords, tuple(sizes))

    def _states_of(self, array: Any, result: Any, dims: Dims) -> Any:
        from xarray import DataArray

        coords = self._rows(result).coords
        return DataArray(array, coords, self._order(dims), name=result.name, attrs=result.attrs)


def checked_dim(dim: Hashable | None, dims: Dims, name: str = "dim") -> Hashable:
    """Return `dim`; raise ValueError unless it is one of the dimensions."""
    if dim is None or not isinstance(dim, Hashable) or dim not in dims:
        got = "none" if dim is None else repr(dim)
        raise ValueError(f"{name} must be one of the dimensions {dims}; got {got}")
    return dim


def check_lacks(name: str, leaf: DataArray, dim: Hashable) -> None:
    """Raise ValueError if an argument has a dimension that it must not have."""
    if dim in leaf.dims:
        raise ValueError(f"{name} must not have the dimension {dim!r}; got dimensions {leaf.dims}")


def _attrs_rule(rule: str) -> Any:
    """Return `keep_attrs` for xarray.apply_ufunc, according to xarray's options."""
    from xarray import get_options

    return rule if get_options()["keep_attrs"] is not False else False


def named_like(result: Any, operands: Sequence[Any]) -> Any:
    """Give a result the name and the attributes that all operands share."""
    import xarray as xr

    common = xr.apply_ufunc(
        lambda *_: 0,
        *(xr.DataArray(0, attrs=leaf.attrs) for leaf in operands),
        keep_attrs=_attrs_rule("drop_conflicts"),
    )
    names = {leaf.name for leaf in operands}
    result.name, result.attrs = names.pop() if len(names) == 1 else None, common.attrs
    return result


def chunked_like(leaf: Any, like: Any) -> Any:
    """Return a lazy DataArray in the chunks of `like` along the dimensions that both have."""
    if leaf is like or like is None or like.chunks is None or leaf.chunks is None:
        return leaf
    return leaf.chunk({dim: like.chunksizes[dim] for dim in leaf.dims if dim in like.dims})


def solve_with_factors(
    function: Callable[..., Any], operands: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """Call a method of labelled factors, ``function(factors, b)``, with a DataArray `b`."""
    import xarray as xr

    bound, _ = bind(function, operands, options)
    factors, b = bound.args[:2]
    if factors.labels is None:
        return solve_labelled(function, operands, options)
    if bound.arguments["rhs_axis"] is not None:
        raise ValueError("rhs_axis must be None if factors and b have names of dimensions")
    other_dims = {dim: size for dim, size in b.sizes.items() if dim not in factors.labels.dims}

    def solve(_: Any, array: Any) -> Any:
        bound.arguments["b"] = array
        return function(*bound.args, **bound.kwargs)

    result = xr.apply_ufunc(
        solve,
        factors.labels.expand_dims(other_dims),
        b,
        join="exact",
        dask="allowed",
        keep_attrs=_attrs_rule("override"),
    )
    return named_like(result.transpose(*b.dims, ...), [b])


def solve_pair(function: Callable[..., Any], operands: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Call a function of two sequences; a result of two axes has the dimensions of both."""
    from xarray import DataArray

    bound, _ = bind(function, operands, options)
    sequences = dict(list(bound.arguments.items())[:2])
    result = _unlabelled(function, bound)
    if getattr(result, "ndim", 0) != 2:
        return result
    named = {name: leaf for name, leaf in sequences.items() if is_labelled(leaf)}
    dims = {name: leaf.dims[0] for name, leaf in named.items()}
    if len(set(dims.values())) < len(sequences):
        return DataArray(result, dims=tuple(sequences))
    coords: dict[Any, Any] = {}
    for leaf in named.values():
        coords |= leaf.coords
    return DataArray(result, coords, tuple(dims.values()))
