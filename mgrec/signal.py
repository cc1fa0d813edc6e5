"""Filters with the arguments of ``scipy.signal``, for NumPy, CuPy and Dask arrays.

ewm
    Compute exponentially weighted means, sums, variances and correlations, as pandas does.
decimate
    Filter, and keep every q-th sample.
filtfilt, sosfiltfilt
    Filter forward and backward, with zero phase.
lfilter, sosfilt
    Filter along an axis, by a transfer function or by second-order sections.
lfilter_zi, lfiltic, sosfilt_zi
    Return initial states.
"""

from typing import Any

from .ewm.statistics import ewm
from .filters.causal import lfilter, lfilter_zi, lfiltic, sosfilt, sosfilt_zi
from .filters.decimation import decimate
from .filters.zero_phase import filtfilt, sosfiltfilt

__all__ = [
    "decimate",
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
        f"function of SciPy, call scipy.signal.{name}: the guide's page 'Filters' has a way for "
        "Dask arrays",
        name=name,
    )
