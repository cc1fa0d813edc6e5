"""Filters in place of those of ``scipy.signal``, for NumPy, CuPy and Dask arrays.

ewm
    Exponentially weighted means, sums, variances and correlations, as pandas computes them.
filtfilt, sosfiltfilt
    Filter forward and backward: no phase.
lfilter, sosfilt
    Filter along an axis: a transfer function, or second-order sections.
lfilter_zi, lfiltic, sosfilt_zi
    States to begin with.
"""

from typing import Any

from .recurrences.ewm.statistics import ewm
from .recurrences.filters.causal import lfilter, sosfilt
from .recurrences.filters.initial import lfilter_zi, lfiltic, sosfilt_zi
from .recurrences.filters.zero_phase import filtfilt, sosfiltfilt

__all__ = [
    "ewm",
    "filtfilt",
    "lfilter",
    "lfilter_zi",
    "lfiltic",
    "sosfilt",
    "sosfilt_zi",
    "sosfiltfilt",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}. If it is a "
        f"function of SciPy, call scipy.signal.{name}",
        name=name,
    )
