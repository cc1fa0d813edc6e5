"""Coefficients of interpolating splines."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

from ..core.arrays.validation import as_integer
from ..distributed.expressions import accepts_expressions
from ..distributed.groups.ends import total_length
from ..solve import with_interop
from .arguments import SPLINE_MODES, as_axes, as_input, as_known_axis, as_mode, as_output, written
from .axes import Filters, filter_axes
from .exponentials import ExponentialFilter
from .kernels import SPLINES, spline_kernel


@partial(with_interop, takes_group=True)
@accepts_expressions
def spline_filter1d(
    input: Any, order: int = 3, axis: int = -1, output: Any = np.float64, mode: str = "mirror"
) -> Any:
    """Compute the coefficients of an interpolating spline along an axis.

    The arguments and results are those of ``scipy.ndimage.spline_filter1d``, in any chunks.

    Parameters
    ----------
    input : array_like, cupy.ndarray or dask.array.Array
        Samples: bool, integers, float32, float64 or complex.
    order : {2, 3, 4, 5}, optional
        Order of the spline. Orders 0 and 1 return the samples.
    axis : int, optional
        Axis along which to filter. The default is the last, or the index of a DataFrame.
    output : dtype or array, optional
        Dtype of the coefficients, or an array to write them to (not for Dask arrays). Those of
        complex samples are complex.
    mode : str, optional
        Extension of the lines: "mirror", "reflect" or "grid-wrap". As in SciPy, "constant",
        "grid-constant" and "wrap" mean "mirror", and "nearest" and "grid-mirror" mean "reflect".
    group : mgrec.collective.Group, optional
        Processes that each have a part of the axis. See :ref:`guide-ranks`.

    Returns
    -------
    array or dask.array.Array
        Coefficients, of the shape and the chunks of `input`.

    Raises
    ------
    TypeError
        If the dtype of `input` or `output` is not supported.
    ValueError
        If `order`, `axis` or `mode` is not one of those above, or `output` has another shape.

    Notes
    -----
    *Accuracy.* At most 4 units in the last place of the largest coefficient of a line from
    SciPy's, in any chunks. All borders are exact.

    *Special values.* A nan makes all coefficients of its line nan, as in SciPy. An inf leaves no
    finite coefficient in its line: those of SciPy are nan or inf, here most are nan. Of a Dask
    array this holds for its chunk and for chunks within 50 samples.

    *Cost.* One reading and one writing on a CPU; two readings and one writing on a GPU. Over Dask
    each chunk is loaded once, and its neighbours get some numbers for each line.

    Examples
    --------
    >>> import numpy as np
    >>> from mgrec.ndimage import spline_filter1d
    >>> spline_filter1d(np.array([0.0, 0.0, 6.0, 0.0, 0.0]), mode="grid-wrap").round(4)
    array([ 0.5455, -2.7273, 10.3636, -2.7273,  0.5455])
    """
    x = as_input(input)
    axis = as_known_axis(axis, x)
    return _filtered(x, order, (axis,), output, mode)


@with_interop
@accepts_expressions
def spline_filter(input: Any, order: int = 3, output: Any = np.float64, mode: str = "mirror") -> Any:
    """Compute the coefficients of an interpolating spline along all axes.

    The arguments and results are those of ``scipy.ndimage.spline_filter``, in any chunks. With
    them, ``scipy.ndimage.map_coordinates`` and the like interpolate each chunk of an image by
    itself (``prefilter=False``): see :doc:`/guide/ndimage`.

    Parameters
    ----------
    input : array_like, cupy.ndarray or dask.array.Array
        Samples: bool, integers, float32, float64 or complex.
    order : {2, 3, 4, 5}, optional
        Order of the spline. Orders 0 and 1 return the samples.
    output : dtype or array, optional
        Dtype of the coefficients, or an array to write them to (not for Dask arrays). Those of
        complex samples are complex.
    mode : str, optional
        Extension of the array, as in :func:`spline_filter1d`.

    Returns
    -------
    array or dask.array.Array
        Coefficients, of the shape and the chunks of `input`.

    Raises
    ------
    TypeError
        If the dtype of `input` or `output` is not supported.
    ValueError
        If `order` or `mode` is not one of those above, or `output` has another shape.

    Notes
    -----
    The array is filtered along one axis after the other, with intermediate results in the dtype of
    `output`, as in SciPy. Accuracy and cost are those of :func:`spline_filter1d`.

    Examples
    --------
    >>> import numpy as np
    >>> from mgrec.ndimage import spline_filter
    >>> spline_filter([[0.0, 0.0], [0.0, 4.0]], order=2)
    array([[ 1., -3.],
           [-3.,  9.]])
    """
    x = as_input(input)
    return _filtered(x, order, as_axes(None, x), output, mode)


def _filtered(x: Any, order: Any, axes: tuple[int, ...], output: Any, mode: Any) -> Any:
    order = as_integer("order", order)
    if not 0 <= order <= 5:
        raise ValueError(f"order must be from 0 to 5; got {order}")
    mode = as_mode(mode, SPLINE_MODES)
    dtype, output = as_output(output, x, np.float64)
    filters: Filters = ()
    if order in SPLINES:
        spline = _spline(order, mode)
        filters = tuple((axis, spline) for axis in axes if total_length(x.shape[axis]) > 1)
    return written(filter_axes(filters, x, dtype), output)


@cache
def _spline(order: int, mode: str) -> ExponentialFilter:
    return ExponentialFilter(spline_kernel(order), mode)
