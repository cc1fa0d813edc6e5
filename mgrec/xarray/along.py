"""Functions of plain arrays, called along a dimension of labelled ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import xarray as xr

from ..algebra.coefficient import Coefficient


def solve_along(
    function: Callable[..., Any],
    dim: Hashable | None,
    like: xr.DataArray,
    operands: Sequence[Any],
    options: Mapping[str, Any],
) -> Any:
    """Call ``function(*operands, axis=..., **options)`` with the arrays of labelled values.

    Parameters
    ----------
    function : callable
        Of arrays that broadcast; `initial` among its options has no `axis`.
    dim : hashable
        What the axis is called.
    like : DataArray
        Of the operands: the result has its dimensions first, its attributes and its name.
    operands : sequence of number, Coefficient or DataArray
    options : mapping
        Labelled values among them are aligned and broadcast, too.

    Returns
    -------
    DataArray, or tuple of these
        A tuple where the option `initial` is one.
    """
    if "out" in options:
        raise TypeError("out must not be given: results are new DataArrays")
    states = options.get("initial")
    several = states if isinstance(states, tuple) else ()
    given = [*operands, *options.values(), *several]
    # Each once, by identity: == of labelled arrays is an array.
    labelled = {id(each): each for each in (like, *given) if isinstance(each, xr.DataArray)}
    dims = tuple(dict.fromkeys(name for each in labelled.values() for name in each.dims))
    axis = dims.index(checked_dim(dim, dims)) - len(dims)
    check_states(dim, several or (states,))

    def call(*arrays: Any) -> Any:
        own = dict(zip(labelled, arrays, strict=True))
        plain = {name: own.get(id(each), each) for name, each in options.items()}
        if several:
            plain["initial"] = tuple(own.get(id(each), each) for each in several)
        if states is not None:
            plain["initial"] = without_axis(plain["initial"], axis)
        return function(*(own.get(id(each), each) for each in operands), axis=axis, **plain)

    return named_like(
        like,
        xr.apply_ufunc(
            call,
            *labelled.values(),
            output_core_dims=[()] * max(len(several), 1),
            join="exact",
            dask="allowed",
            keep_attrs=True,
        ),
    )


def checked_dim(dim: Hashable | None, dims: tuple[Hashable, ...]) -> Hashable:
    """`dim`, one of these; not knowing it is an error that lists them."""
    if dim is None or dim not in dims:
        got = "none" if dim is None else repr(dim)
        raise ValueError(f"dim must be one of the dimensions {dims}; got {got}")
    return dim


def check_states(dim: Hashable | None, states: Sequence[Any]) -> None:
    """States before the first step have all dimensions but that of the steps."""
    for state in states:
        if dim in getattr(state, "dims", ()):
            raise ValueError(
                f"initial must not have the dimension {dim!r}: it is the state before its first "
                f"step; got dimensions {state.dims}"
            )


def without_axis(state: Any, axis: int) -> Any:
    """A state, or several, without the axis of length 1 that broadcasting gave it."""
    if isinstance(state, tuple):
        return tuple(without_axis(each, axis) for each in state)
    if getattr(state, "ndim", 0) < -axis:
        return state
    return state[(..., 0, *[slice(None)] * (-axis - 1))]


def named_like(like: xr.DataArray, result: Any) -> Any:
    """A result, or several, with the name of the data."""
    if isinstance(result, tuple):
        return tuple(each.rename(like.name) for each in result)
    return result.rename(like.name)


def as_labelled(name: str, value: Any, known: xr.DataArray | xr.Dataset) -> Any:
    """A coefficient: a number, a DataArray, or what is known by its name.

    Parameters
    ----------
    name : str
        For messages.
    known : DataArray or Dataset
        Of whose coordinates and variables a name may be.
    """
    if isinstance(value, str):
        found = known if isinstance(known, xr.Dataset) else known.coords
        if value not in found:
            raise ValueError(f"{name} must be one of {sorted(map(str, found))}; got {value!r}")
        return found[value]
    if isinstance(value, tuple):
        return tuple(as_labelled(name, each, known) for each in value)
    arrays = value.arrays if isinstance(value, Coefficient) else (value,)
    if any(getattr(each, "ndim", 0) for each in arrays) and not isinstance(value, xr.DataArray):
        raise TypeError(
            f"{name} must be a number, a DataArray or a name, so that its dimensions are known; "
            f"got {type(value).__name__}: give xarray.DataArray({name}, dims=...)"
        )
    if isinstance(value, (list, dict, xr.Dataset)):
        raise TypeError(
            f"{name} must be a number, a DataArray or a name; got {type(value).__name__}"
        )
    return value
