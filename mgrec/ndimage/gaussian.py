"""Gaussian filters by recursion."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..core.arrays.validation import as_integer, as_real
from ..distributed.expressions import accepts_expressions
from ..solve import solve_labelled, with_interop
from .arguments import (
    SYNONYMS,
    as_axes,
    as_cval,
    as_input,
    as_known_axis,
    as_mode,
    as_output,
    cached,
    for_each_axis,
    written,
)
from .axes import Filters, filter_axes
from .exponentials import ExponentialFilter
from .kernels import gaussian_kernel

# SciPy skips an axis with a smaller sigma.
LEAST_SIGMA = 1e-15
# Poles of a larger sigma are too close to 1 for float64.
LARGEST_SIGMA = 1e9


@partial(with_interop, labelled=partial(solve_labelled, by_value=("sigma",)), takes_group=True)
@accepts_expressions
def gaussian_filter1d(
    input: Any,
    sigma: Any,
    axis: int = -1,
    order: int = 0,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
) -> Any:
    """Smooth with a Gaussian along an axis, or differentiate what it smooths.

    The arguments are those of ``scipy.ndimage.gaussian_filter1d`` without `truncate` and
    `radius`: the Gaussian is not cut off, and a wide one costs as much as a narrow one.

    Parameters
    ----------
    input : array_like, cupy.ndarray or dask.array.Array
        Samples: bool, integers, float32, float64 or complex.
    sigma : float
        Standard deviation of the Gaussian, in samples.
    axis : int, optional
        Axis along which to filter. The default is the last, or the index of a DataFrame.
    order : {0, 1, 2}, optional
        Order of the derivative of the Gaussian.
    output : dtype or array, optional
        Dtype of the result, or an array to write it to (not for Dask arrays). The default is the
        dtype of `input`; integers are truncated, as in SciPy.
    mode : str, optional
        Extension of the lines, as in SciPy: "reflect" or "grid-mirror", "constant" or
        "grid-constant", "nearest", "mirror", "wrap" or "grid-wrap".
    cval : number, optional
        Value outside of the array if `mode` is "constant".
    group : mgrec.collective.Group, optional
        Processes that each have a part of the axis. See :ref:`guide-ranks`.

    Returns
    -------
    array or dask.array.Array
        Result, of the shape and the chunks of `input`.

    Raises
    ------
    TypeError
        If the dtype of `input` or `output` is not supported.
    ValueError
        If `sigma` is not positive or above 1e9, or `order`, `axis` or `mode` is not one of those
        above.

    Notes
    -----
    *Accuracy.* The kernel is a sum of eight exponentials (Deriche [1]_ has four). Its distance to
    the true Gaussian is at most 4e-7 of the peak for `order` 0, 8e-7 for a `sigma` below 0.5; 4e-7
    and 4.3e-6 of 1/sigma times and of 1/sigma² times that peak for `order` 1 and 2. The kernel of
    SciPy, which ends at 4·sigma, is off by 1e-4. All borders are exact, and results are the same in
    any chunks up to rounding.

    *Special values.* A nan makes its whole line nan. An inf leaves no finite number in its line:
    elements are nan, and some may be inf. Of a Dask array this holds for its chunk and the chunks
    within 20·sigma samples.

    *Cost.* One reading and one writing on a CPU; two readings and one writing on a GPU. Over Dask
    each chunk is loaded once, and its neighbours get 16 numbers for each line.

    References
    ----------
    .. [1] R. Deriche, "Recursively implementing the Gaussian and its derivatives", INRIA report
       1893, 1993.

    Examples
    --------
    >>> import numpy as np
    >>> from mgrec.ndimage import gaussian_filter1d
    >>> gaussian_filter1d(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), 1).round(3)
    array([1.427, 2.068, 3.   , 3.932, 4.573])
    """
    x = as_input(input)
    axis = as_known_axis(axis, x)
    dtype, output = as_output(output, x, x.dtype)
    sigma = _as_sigma(sigma)
    if sigma == 0:
        raise ValueError("sigma must be positive; got 0")
    axis_filter = _filter(sigma, order, mode, as_cval(cval, x))
    return written(filter_axes(((axis, axis_filter),), x, dtype), output)


@with_interop
@accepts_expressions
def gaussian_filter(
    input: Any,
    sigma: Any,
    order: Any = 0,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    *,
    axes: Any = None,
) -> Any:
    """Smooth with a Gaussian along several axes, or differentiate what it smooths.

    The arguments are those of ``scipy.ndimage.gaussian_filter`` without `truncate` and `radius`:
    the Gaussian is not cut off, and a wide one costs as much as a narrow one.

    Parameters
    ----------
    input : array_like, cupy.ndarray or dask.array.Array
        Samples: bool, integers, float32, float64 or complex.
    sigma : float or sequence of float
        Standard deviation of the Gaussian in samples, for all axes or for each; 0 leaves an axis.
    order : int or sequence of int, optional
        Order of the derivative, 0 to 2, for all axes or for each.
    output : dtype or array, optional
        Dtype of the result, or an array to write it to (not for Dask arrays). The default is the
        dtype of `input`; integers are truncated after each axis, as in SciPy.
    mode : str or sequence of str, optional
        Extension of the array, as in :func:`gaussian_filter1d`, for all axes or for each.
    cval : number, optional
        Value outside of the array if `mode` is "constant".
    axes : int or iterable of int, optional
        Axes along which to filter. The default is all.

    Returns
    -------
    array or dask.array.Array
        Result, of the shape and the chunks of `input`.

    Raises
    ------
    TypeError
        If the dtype of `input` or `output` is not supported.
    ValueError
        If a `sigma` is negative or above 1e9, or an `order`, `axes` or a `mode` is not one of those
        above.

    Notes
    -----
    Accuracy and cost along each axis are those of :func:`gaussian_filter1d`.

    Examples
    --------
    >>> import numpy as np
    >>> from mgrec.ndimage import gaussian_filter
    >>> image = np.zeros((5, 5))
    >>> image[2, 2] = 1.0
    >>> gaussian_filter(image, 1)[2].round(4)
    array([0.0233, 0.0966, 0.1592, 0.0966, 0.0233])
    """
    x = as_input(input)
    axes = as_axes(axes, x)
    dtype, output = as_output(output, x, x.dtype)
    filters = _filters(sigma, order, mode, as_cval(cval, x), *axes)
    return written(filter_axes(filters, x, dtype), output)


@with_interop
@accepts_expressions
def gaussian_laplace(
    input: Any, sigma: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None
) -> Any:
    """Compute the Laplacian of an array that is smoothed with a Gaussian.

    The arguments are those of ``scipy.ndimage.gaussian_laplace``. The result is the sum of the
    second derivatives by :func:`gaussian_filter`, which has the parameters.

    Parameters
    ----------
    input : array_like, cupy.ndarray or dask.array.Array
        Samples: bool, integers, float32, float64 or complex.
    sigma : float or sequence of float
        Standard deviation of the Gaussian in samples, for all axes or for each.
    output : dtype or array, optional
        Dtype of the result, or an array to write it to (not for Dask arrays).
    mode : str or sequence of str, optional
        Extension of the array, in all derivatives or in that along each axis. As in SciPy, the
        mode of a derivative is that of all axes.
    cval : number, optional
        Value outside of the array if `mode` is "constant".
    axes : int or iterable of int, optional
        Axes of the Laplacian and the Gaussian. The default is all.

    Returns
    -------
    array or dask.array.Array
        Result, of the shape and the chunks of `input`.

    Raises
    ------
    TypeError
        If the dtype of `input` or `output` is not supported.
    ValueError
        If a `sigma` is not positive or above 1e9, or `axes` or a `mode` is not one of those above.

    Examples
    --------
    >>> import numpy as np
    >>> from mgrec.ndimage import gaussian_laplace
    >>> rows, columns = np.indices((101, 101))
    >>> bowl = 0.5 * (rows**2 + columns**2)
    >>> float(gaussian_laplace(bowl, 2)[50, 50].round(6))
    2.0
    """
    x = as_input(input)
    axes = as_axes(axes, x)
    dtype, output = as_output(output, x, x.dtype)
    cval, total = as_cval(cval, x), None
    for sigma_of_axis in for_each_axis("sigma", sigma, axes):
        if _as_sigma(sigma_of_axis) == 0:
            raise ValueError("sigma must be positive; got 0")
    for number, mode_of_term in enumerate(for_each_axis("mode", mode, axes)):
        orders = [2 if k == number else 0 for k in range(len(axes))]
        filters = _filters(sigma, orders, mode_of_term, cval, *axes)
        derivative = filter_axes(filters, x, dtype)
        total = derivative if total is None else total + derivative
    return written(x.astype(dtype) if total is None else total, output)


@cached
def _filters(sigma: Any, order: Any, mode: Any, cval: complex, *axes: int) -> Filters:
    sigmas = [_as_sigma(value) for value in for_each_axis("sigma", sigma, axes)]
    orders, modes = for_each_axis("order", order, axes), for_each_axis("mode", mode, axes)
    return tuple(
        (axis, _filter(deviation, order_of_axis, mode_of_axis, cval))
        for axis, deviation, order_of_axis, mode_of_axis in zip(axes, sigmas, orders, modes, strict=True)
        if deviation > LEAST_SIGMA
    )


def _as_sigma(sigma: Any) -> float:
    value = as_real("sigma", sigma)
    if not 0 <= value <= LARGEST_SIGMA:
        raise ValueError(f"sigma must be from 0 to {LARGEST_SIGMA:g}; got {sigma}")
    return value


@cached
def _filter(sigma: float, order: Any, mode: Any, cval: complex) -> ExponentialFilter:
    order = as_integer("order", order)
    if order not in (0, 1, 2):
        raise ValueError(f"order must be 0, 1 or 2; got {order}")
    mode = as_mode(mode, SYNONYMS)
    # Kernels multiply the constant by 0 in other modes, which nan and inf would survive.
    constant = cval if mode == "constant" else 0.0
    return ExponentialFilter(gaussian_kernel(sigma, order), mode, constant)
