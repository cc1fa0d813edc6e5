"""Adjoints of filters of images, which are symmetric: the filter of the gradient.

A symmetric kernel is its own adjoint, and an antisymmetric one the negative, over rows that are
periodic, reflected about the edge of the last sample, or continued by 0. About the centre of the
last sample (mode "mirror") the filter F is W⁻¹·Fᵀ·W with the weights W = diag(½, 1, …, 1, ½): the
adjoint of each row is W·F·W⁻¹.

The derivative of a Gaussian G, sampled at integers with the sum 1, by its deviation σ is

    dG[n]/dσ = G[n]·(n² − m)/σ³ = σ·G″[n] + G[n]·(1/σ − m/σ³)

with the variance m of the samples, and the second derivative G″ that the filter of order 2 samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..core.arrays.array_types import computed_dtype
from ..core.arrays.interop import is_differentiated
from ..core.arrays.validation import as_axis
from ..solve.adjoint import from_host, inner, summed
from ..solve.rules import Redirect, Rule, numpy_dtype
from . import gaussian, splines, uniform
from .arguments import SPLINE_MODES, SYNONYMS, as_axes, as_mode
from .kernels import sampled_variance


def _adjoint(filtered: Callable[..., Any], modes: Any, grad: Any, arguments: dict[str, Any]) -> Any:
    """Return the gradient of the input, by the filter of an axis."""
    axis, extension = as_axis(arguments["axis"], grad.shape), as_mode(arguments["mode"], modes)
    filtered, length = partial(filtered, axis=axis, mode=arguments["mode"]), grad.shape[axis]
    if extension != "mirror" or length <= 1:
        return filtered(grad)
    weights = np.ones(length, numpy_dtype(grad))
    weights[[0, -1]] = 0.5
    weights = from_host(weights.reshape(-1, *[1] * (grad.ndim - 1 - axis)), grad)
    return weights * filtered(grad / weights)


def _of_spline(grad: Any, grad_zf: Any, y: Any, arguments: dict[str, Any], of: Sequence[str]) -> Any:
    filtered = partial(splines.spline_filter1d, order=arguments["order"])
    return summed({"input": _adjoint(filtered, SPLINE_MODES, grad, arguments)}, arguments, of)


def _of_gaussian(grad: Any, grad_zf: Any, y: Any, arguments: dict[str, Any], of: Sequence[str]) -> Any:
    order = arguments["order"]
    filtered = partial(gaussian.gaussian_filter1d, sigma=arguments["sigma"], order=order)

    def of_input() -> Any:
        return _adjoint(filtered, SYNONYMS, -grad if order == 1 else grad, arguments)

    def of_sigma() -> Any:
        return inner(_slope_by_sigma(arguments), grad)

    return summed({"input": of_input, "sigma": of_sigma}, arguments, of)


def _slope_by_sigma(arguments: dict[str, Any]) -> Any:
    """Return the derivative of a filtered input by sigma."""
    if is_differentiated(arguments["sigma"]):
        raise NotImplementedError("Gaussians have no second derivatives where sigma has a gradient")
    sigma = float(arguments["sigma"])
    options = {name: arguments[name] for name in ("axis", "mode", "cval")}
    smooth, curved = (
        gaussian.gaussian_filter1d(arguments["input"], sigma, order=order, **options) for order in (0, 2)
    )
    return sigma * curved + (1 - sampled_variance(sigma)) / sigma * smooth


def _of_uniform(grad: Any, grad_zf: Any, y: Any, arguments: dict[str, Any], of: Sequence[str]) -> Any:
    size = arguments["size"]
    # The window is reversed.
    origin = size - 1 - 2 * (size // 2) - arguments["origin"]
    filtered = partial(uniform.uniform_filter1d, size=size, origin=origin)
    return summed({"input": _adjoint(filtered, SYNONYMS, grad, arguments)}, arguments, of)


def _check(arguments: dict[str, Any]) -> None:
    """Raise NotImplementedError if the filter is not symmetric at its borders."""
    extension = as_mode(arguments["mode"], SYNONYMS)
    if "size" in arguments:
        is_symmetric = arguments["size"] % 2 == 1 and arguments["origin"] == 0
        wanted = "an odd size and origin 0"
    else:
        is_symmetric, wanted = arguments["order"] % 2 == 0, "order 0 or 2"
        if arguments["order"] != 0 and is_differentiated(arguments["sigma"]):
            raise NotImplementedError(
                f"sigma has a gradient for order 0 alone; got order {arguments['order']}: in torch "
                f"pass sigma.detach()"
            )
    if extension == "nearest":
        raise NotImplementedError("gradients need another mode; got 'nearest'")
    if not is_symmetric and extension in ("reflect", "mirror"):
        raise NotImplementedError(
            f"gradients need {wanted}, or the mode 'wrap' or 'constant'; got {arguments['mode']!r}"
        )


def _outlines(arguments: dict[str, Any]) -> list[tuple[Any, Any]]:
    x = arguments["input"]
    return [(x.shape, computed_dtype(numpy_dtype(x)))]


def _outlines_of_spline(arguments: dict[str, Any]) -> list[tuple[Any, Any]]:
    x = arguments["input"]
    return [(x.shape, np.result_type(numpy_dtype(x), np.float64))]


def _require_default(output: Any) -> None:
    if output not in (None, np.float64):
        raise TypeError(f"output is not supported where gradients are computed; got {output!r}")


def _for_each_axis(value: Any, axes: Sequence[int]) -> list[Any]:
    """Return a value for each axis, as ``for_each_axis``, which torch cannot trace."""
    is_several = isinstance(value, (tuple, list)) or getattr(value, "ndim", 0) == 1
    return [*value] if is_several else [value] * len(axes)


def _spline_filter(input: Any, order: int = 3, output: Any = np.float64, mode: str = "mirror") -> Any:
    _require_default(output)
    for axis in range(input.ndim):
        input = splines.spline_filter1d(input, order, axis, mode=mode)
    return input


def _gaussian_filter(
    input: Any,
    sigma: Any,
    order: Any = 0,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    *,
    axes: Any = None,
) -> Any:
    _require_default(output)
    axes, named = as_axes(axes, input), (sigma, order, mode)
    values = [_for_each_axis(value, axes) for value in named]
    for axis, deviation, order_of_axis, mode_of_axis in zip(axes, *values, strict=True):
        if is_differentiated(deviation) or deviation > gaussian.LEAST_SIGMA:
            input = gaussian.gaussian_filter1d(
                input, deviation, axis, order_of_axis, mode=mode_of_axis, cval=cval
            )
    return input


def _gaussian_laplace(
    input: Any, sigma: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None
) -> Any:
    _require_default(output)
    axes = as_axes(axes, input)
    orders = [[2 * (k == n) for k in range(len(axes))] for n in range(len(axes))]
    return sum(
        _gaussian_filter(input, sigma, order, None, mode_of_term, cval, axes=axes)
        for order, mode_of_term in zip(orders, _for_each_axis(mode, axes), strict=True)
    )


def _uniform_filter(
    input: Any,
    size: Any = 3,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    _require_default(output)
    axes, named = as_axes(axes, input), (size, mode, origin)
    values = [_for_each_axis(value, axes) for value in named]
    for axis, size_of_axis, mode_of_axis, origin_of_axis in zip(axes, *values, strict=True):
        if (size_of_axis := uniform.as_size(size_of_axis)) > 1:
            input = uniform.uniform_filter1d(
                input, size_of_axis, axis, mode=mode_of_axis, cval=cval, origin=origin_of_axis
            )
    return input


_OPTIONS = {"axis": ("int", -1), "mode": ("str", "reflect"), "cval": ("float", 0.0)}
RULES = [
    Rule(
        splines.spline_filter1d,
        _of_spline,
        ("input",),
        {"order": ("int", 3), "axis": ("int", -1), "mode": ("str", "mirror")},
        _outlines_of_spline,
    ),
    Rule(
        gaussian.gaussian_filter1d,
        _of_gaussian,
        ("input", "sigma"),
        {"order": ("int", 0), **_OPTIONS},
        _outlines,
        check=_check,
        numbers=("sigma",),
    ),
    Rule(
        uniform.uniform_filter1d,
        _of_uniform,
        ("input",),
        {"size": ("int", 3), "origin": ("int", 0), **_OPTIONS},
        _outlines,
        check=_check,
    ),
    Redirect(splines.spline_filter, _spline_filter),
    Redirect(gaussian.gaussian_filter, _gaussian_filter),
    Redirect(gaussian.gaussian_laplace, _gaussian_laplace),
    Redirect(uniform.uniform_filter, _uniform_filter),
]
