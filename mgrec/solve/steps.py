"""Labels of functions whose data are vectors along an axis of steps, and of their results."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..core.arrays.interop import to_native
from ..core.arrays.series import is_series, label_rows
from .labelled import Dims, axis_of, bind, chunked_like, default_axis, is_labelled, named_like

if TYPE_CHECKING:
    from xarray import DataArray

_STEPS, _ENTRIES = "steps", "entries"
Axes = tuple[str, ...]


@dataclass(frozen=True)
class StepLabels:
    """How data with labels are passed to a function whose steps have vectors, as in :mod:`mgrec.hmm`.

    Data have the axes (..., steps, entries), or (..., steps) with `vectors` of 0. An instance calls
    the function with DataArrays, as :func:`.labelled.solve_labelled` does.

    `by_value`: parameters whose axes are not those of the data: the matrices of the model.
    `results`, tuple of (tuple of str) or None: for each result, the axes that it has in addition to
      the rows: "steps", "entries" (those of the data), and names of further axes; None for a result
      without labels.
    `vectors`: number of axes of a step of the data, 0 or 1.
    """

    by_value: tuple[str, ...]
    results: tuple[Axes | None, ...]
    vectors: int = 1

    def __call__(
        self,
        function: Callable[..., Any],
        operands: Sequence[Any],
        options: Mapping[str, Any],
        *,
        like: DataArray | None = None,
    ) -> Any:
        """Call the function with DataArrays, and return DataArrays of its results."""
        bound, by_name = bind(function, operands, options)
        arguments = bound.arguments
        for name in arguments.keys() & {*self.by_value}:
            arguments[name] = to_native(name, arguments[name])
        reset = arguments.pop("reset", None)
        data = {name: value for name, value in arguments.items() if is_labelled(value)}
        labels = max(data.values(), key=lambda value: value.ndim, default=None) if like is None else like
        if labels is None:
            arguments["reset"] = to_native("reset", reset)
            return function(*bound.args, **bound.kwargs)
        dims = labels.dims[: max(1, labels.ndim - self.vectors)]
        is_name = bool(by_name) or like is not None
        label = "dim" if is_name else "axis"
        axis = (
            axis_of(arguments["axis"], dims, labels.shape[: len(dims)], label, is_name)
            if "axis" in arguments
            else default_axis(dims)
        )
        arguments["axis"] = axis
        for name, value in data.items():
            arguments[name] = _aligned(name, value, labels, dims).data
        if reset is not None:
            arguments["reset"] = _marks_along(reset, labels, dims) if is_labelled(reset) else reset
        results = function(*bound.args, **bound.kwargs)
        results = self._converted(results, lambda *of: _labelled(labels, dims, axis, *of))
        return results if like is None else named_like(chunked_like(results, like), [like])

    def label_rows(self, data: Sequence[Any], results: Any) -> Any:
        """Return results with the index of the first Series or DataFrame, and its columns."""
        series = next(filter(is_series, data), None)
        if series is None:
            return results

        def labelled(axes: Axes, name: str | None, array: Any) -> Any:
            has_entries = axes[1:] == (_ENTRIES,) or not self.vectors
            return label_rows(series, array, has_entries) if axes else array

        return self._converted(results, labelled)

    def _converted(self, results: Any, convert: Callable[[Axes, str | None, Any], Any]) -> Any:
        def converted(axes: Axes | None, name: str | None, array: Any) -> Any:
            return array if axes is None or array is None else convert(axes, name, array)

        if not isinstance(results, tuple):
            return converted(self.results[0], None, results)
        names = getattr(results, "_fields", None)
        if names is None:
            pairs = zip(self.results, results, strict=True)
            return tuple([converted(axes, None, array) for axes, array in pairs])
        return type(results)(*map(converted, self.results, names, results))


def _aligned(name: str, value: Any, labels: Any, dims: Dims) -> Any:
    """Return data that have the dimensions and the labels of the first ones."""
    import xarray as xr

    if value.dims[: len(dims)] != dims:
        raise ValueError(f"{name} must have the dimensions {dims} first; got {value.dims}")
    known = [labels.coords[dim] for dim in dims if dim in labels.coords]
    return xr.align(value, *known, join="exact", copy=False)[0]


def _marks_along(reset: Any, labels: Any, dims: Dims) -> Any:
    """Return marks or labels of steps as an array with the dimensions of steps and rows."""
    import xarray as xr

    if not {*reset.dims} <= {*dims}:
        raise ValueError(f"reset must have dimensions of {dims}; got {reset.dims}")
    known = [labels.coords[dim] for dim in dims if dim in labels.coords]
    reset = xr.align(reset, *known, join="exact", copy=False)[0].transpose(*dims, missing_dims="ignore")
    return reset.data[tuple([slice(None) if dim in reset.dims else None for dim in dims])]


def _labelled(labels: Any, dims: Dims, axis: int, axes: Axes, name: str | None, array: Any) -> Any:
    """Return a result as a DataArray; numbers stay numbers."""
    from xarray import DataArray

    names: list[Hashable] = [dim for k, dim in enumerate(dims) if k != axis or _STEPS in axes]
    entries = labels.dims[len(dims) :] or (_ENTRIES,)
    for other in axes:
        names += entries if other == _ENTRIES else [other] * (other != _STEPS)
    names = names[: array.ndim]  # a gradient of data without an axis of entries has none
    if not names:
        return array
    coords = {key: value for key, value in labels.coords.items() if {*value.dims} <= {*names}}
    return DataArray(array, coords, names, name)
