"""Filters of images with the arguments of ``scipy.ndimage``, for NumPy, CuPy and Dask arrays.

gaussian_filter, gaussian_filter1d
    Smooth with a Gaussian of any width at one price, or differentiate what it smooths.
gaussian_laplace
    Compute the Laplacian of an array smoothed with a Gaussian.
spline_filter, spline_filter1d
    Compute the coefficients of an interpolating spline.
uniform_filter, uniform_filter1d
    Average over boxes.
"""

from typing import Any

from .gaussian import gaussian_filter, gaussian_filter1d, gaussian_laplace
from .splines import spline_filter, spline_filter1d
from .uniform import uniform_filter, uniform_filter1d

__all__ = [
    "gaussian_filter",
    "gaussian_filter1d",
    "gaussian_laplace",
    "spline_filter",
    "spline_filter1d",
    "uniform_filter",
    "uniform_filter1d",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}. If it is a "
        f"function of SciPy, call scipy.ndimage.{name}",
        name=name,
    )
