"""Box filters by running sums."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..core.arrays.validation import as_integer
from ..distributed.expressions import accepts_expressions
from ..solve import solve_labelled, with_interop
from .arguments import (
    as_axes,
    as_cval,
    as_input,
    as_known_axis,
    as_mode,
    as_output,
    for_each_axis,
    written,
)
from .axes import filter_axes
from .borders import SYNONYMS
from .windows import WindowAverage

_MOST = 2**31


@partial(with_interop, labelled=partial(solve_labelled, by_value=("size",)))
@accepts_expressions
def uniform_filter1d(
    input: Any,
    size: int,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Any:
    """Average over windows along an axis.

    The arguments are those of ``scipy.ndimage.uniform_filter1d``.

    Parameters
    ----------
    input : array_like, cupy.ndarray or dask.array.Array
        Samples: bool, integers, float32, float64 or complex.
    size : int
        Number of samples of a window.
    axis : int, optional
        Axis along which to filter. The default is the last.
    output : dtype or array, optional
        Dtype of the result, or an array to write it to (not for Dask arrays). The default is the
        dtype of `input`; integers are truncated, as in SciPy.
    mode : str, optional
        Extension of the lines, as in SciPy: "reflect" or "grid-mirror", "constant" or
        "grid-constant", "nearest", "mirror", "wrap" or "grid-wrap".
    cval : number, optional
        Value outside of the array if `mode` is "constant".
    origin : int, optional
        Shift of the window: it starts size // 2 + origin samples before its result.

    Returns
    -------
    array or dask.array.Array
        Averages, of the shape and the chunks of `input`.

    Raises
    ------
    TypeError
        If the dtype of `input` or `output` is not supported.
    ValueError
        If `size` is below 1, the window does not contain its result, or `axis` or `mode` is not
        one of those above.

    Notes
    -----
    *Accuracy.* Sums are computed in float64 and start again after `size` samples, and none is ever
    subtracted: errors do not accumulate along a line, as they do in SciPy. An average is within
    size·2^-53 times the average of magnitudes. Sums of integers below 2^53 are exact.

    *Special values.* A nan or inf affects the windows that contain it; SciPy's running sum is nan
    from there on.

    *Cost.* Three additions a sample for any `size`. Over Dask each chunk is loaded once, and its
    neighbours get the size − 1 samples next to them.

    Examples
    --------
    >>> from mgrec.ndimage import uniform_filter1d
    >>> uniform_filter1d([2, 8, 0, 4, 1, 9, 9, 0], size=3)
    array([4, 3, 4, 1, 4, 6, 6, 3])
    """
    x = as_input(input)
    axis = as_known_axis(axis, x)
    dtype, output = as_output(output, x, x.dtype)
    window = _window(size, origin, mode, as_cval(cval, x))
    return written(filter_axes([(axis, window)], x, dtype), output)


@with_interop
@accepts_expressions
def uniform_filter(
    input: Any,
    size: Any = 3,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """Average over boxes.

    The arguments are those of ``scipy.ndimage.uniform_filter``.

    Parameters
    ----------
    input : array_like, cupy.ndarray or dask.array.Array
        Samples: bool, integers, float32, float64 or complex.
    size : int or sequence of int, optional
        Number of samples of a box, along all axes or along each.
    output : dtype or array, optional
        Dtype of the result, or an array to write it to (not for Dask arrays). The default is the
        dtype of `input`; integers are truncated after each axis, as in SciPy.
    mode : str or sequence of str, optional
        Extension of the array, as in :func:`uniform_filter1d`, for all axes or for each.
    cval : number, optional
        Value outside of the array if `mode` is "constant".
    origin : int or sequence of int, optional
        Shift of the box, for all axes or for each.
    axes : int or tuple of int, optional
        Axes along which to average. The default is all.

    Returns
    -------
    array or dask.array.Array
        Averages, of the shape and the chunks of `input`.

    Raises
    ------
    TypeError
        If the dtype of `input` or `output` is not supported.
    ValueError
        If a `size` is below 1, a box does not contain its result, or `axes` or a `mode` is not one
        of those above.

    Notes
    -----
    Accuracy and cost along each axis are those of :func:`uniform_filter1d`.

    Examples
    --------
    >>> import numpy as np
    >>> from mgrec.ndimage import uniform_filter
    >>> uniform_filter(np.arange(9.0).reshape(3, 3))[1]
    array([3.33333333, 4.        , 4.66666667])
    """
    x = as_input(input)
    axes = as_axes(axes, x)
    dtype, output = as_output(output, x, x.dtype)
    cval = as_cval(cval, x)
    sizes, origins, modes = (
        for_each_axis(name, value, axes)
        for name, value in (("size", size), ("origin", origin), ("mode", mode))
    )
    windows = [
        (axis, _window(size_of_axis, origin_of_axis, mode_of_axis, cval))
        for axis, size_of_axis, origin_of_axis, mode_of_axis in zip(
            axes, sizes, origins, modes, strict=True
        )
    ]
    filters = [(axis, window) for axis, window in windows if window.size > 1]
    return written(filter_axes(filters, x, dtype), output)


def _window(size: Any, origin: Any, mode: Any, cval: complex) -> WindowAverage:
    size, origin = as_integer("size", size), as_integer("origin", origin)
    if not 1 <= size < _MOST:
        raise ValueError(f"size must be at least 1 and below 2**31; got {size}")
    before = size // 2 + origin
    if not 0 <= before < size:
        raise ValueError(
            f"origin must be from {-(size // 2)} to {size - 1 - size // 2} for size {size}; got "
            f"{origin}"
        )
    return WindowAverage(size, before, as_mode(mode, SYNONYMS), cval)
