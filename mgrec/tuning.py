"""Measure the constants and configurations of P-scheme/G (``method="p-scheme"``) on this GPU.

P-scheme/G divides N steps among P = G·T processors, which are G thread blocks of T threads. In the
model of its papers the three phases take T(P) = (alpha + gamma)·N/P + beta·P, so that P_opt is
sqrt((alpha + gamma)·N/beta). G is chosen first, then T.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .core.arrays.validation import as_integer, is_one_of
from .scans.cuda import p_scheme
from .scans.policy import Configuration, Constants, Measurement, predict_time

__all__ = ["Configuration", "Constants", "Measurement", "Report", "measure", "report"]

_WORDS_A_STEP = {"arrays": 3, "constant": 2, "computed": 2}
"""Numbers that a step must read and write."""
_DTYPES = "bBhHiIlLqQfdFD"


@dataclass(frozen=True)
class Report:
    """The configuration that the policy chooses for one row, and measured configurations.

    ``str(report)`` and :func:`rich.print` show a table.

    Attributes
    ----------
    device : str
        Name of the device.
    n : int
        Number of steps.
    dtype : numpy.dtype
        Dtype of the recurrence.
    kind : {"arrays", "constant", "computed"}
        Form of the coefficients.
    constants : Constants
        Measured alpha, beta and gamma, in seconds.
    predicted : Configuration
        Configuration that the policy chooses.
    measurements : tuple of Measurement
        Measurement of that configuration, then of all others that were tried.
    bandwidth : float
        Bytes per second, read and written, of a copy on the device.
    """

    device: str
    n: int
    dtype: np.dtype[Any]
    kind: str
    constants: Constants
    predicted: Configuration
    measurements: tuple[Measurement, ...]
    bandwidth: float

    @property
    def best(self) -> Measurement:
        """Fastest configuration over arrays that are rearranged already."""
        return min(self.measurements, key=lambda measurement: measurement.rearranged)

    @property
    def floor(self) -> float:
        """Seconds that the least memory traffic of the recurrence takes."""
        return _WORDS_A_STEP[self.kind] * self.dtype.itemsize * self.n / self.bandwidth

    def predict(self, configuration: Configuration) -> float:
        """Return the seconds that the three phases take according to the model."""
        return predict_time(self.n, self.constants, configuration)

    def __str__(self) -> str:
        constants = self.constants
        header = (
            f"P-scheme/G on {self.device}: N = {self.n:,}, {self.dtype}, {self.kind}\n"
            f"alpha {constants.alpha * 1e9:.3g} ns, beta {constants.beta * 1e9:.3g} ns, "
            f"gamma {constants.gamma * 1e9:.3g} ns; floor {constants.floor * 1e12:.3g} ps a step\n"
            f"{'':9}    G     T         P  predicted ms  measured ms  of the floor  transposed ms"
        )
        ranked = sorted(self.measurements, key=lambda measurement: measurement.rearranged)
        return "\n".join([header, *map(self._format, ranked)])

    def __rich__(self) -> str:
        title, table = str(self).split("\n", 1)
        return f"[bold]{title}[/bold]\n{table}"

    def _format(self, measured: Measurement) -> str:
        configuration = measured.configuration
        mark = "policy" if configuration == self.predicted else ""
        mark = "best" if measured == self.best else mark
        if configuration == self.predicted == self.best.configuration:
            mark = "both"
        return (
            f"{mark:9}{configuration.blocks:5}{configuration.threads:6}"
            f"{configuration.processors:10,}{self.predict(configuration) * 1e3:14.4g}"
            f"{measured.rearranged * 1e3:13.4g}{self.floor / measured.rearranged:14.2f}"
            f"{measured.whole * 1e3:15.4g}"
        )


def measure(dtype: Any = "float32", kind: str = "arrays") -> Constants:
    """Measure alpha, beta and gamma on CuPy's current device.

    Parameters
    ----------
    dtype : dtype
        Dtype of the recurrence.
    kind : {"arrays", "constant", "computed"}
        Form of the coefficients: an array, one number, or computed on the fly.

    Returns
    -------
    Constants
        Constants in seconds, measured once for each process and device.

    Raises
    ------
    RuntimeError
        If there is no GPU, or CuPy is not installed.
    TypeError
        If a GPU does not support the dtype.
    ValueError
        If `kind` is unknown.

    Notes
    -----
    The first call takes about two seconds, most of it for compilation. ``method="p-scheme"`` itself
    uses constants that were measured once, because its results must not depend on timing.
    """
    return p_scheme.measure(_check_dtype(dtype), _check_operands(kind))


def report(n: int, dtype: Any = "float32", kind: str = "arrays") -> Report:
    """Compare the configuration that the policy chooses with measured ones.

    Parameters
    ----------
    n : int
        Number of steps of the recurrence, at least 1.
    dtype : dtype
        Dtype of the recurrence.
    kind : {"arrays", "constant", "computed"}
        Form of the coefficients, as for :func:`measure`.

    Returns
    -------
    Report

    Raises
    ------
    RuntimeError, TypeError
        As for :func:`measure`. TypeError also if `n` is not an integer.
    ValueError
        If `kind` is unknown, or `n` is below 1.
    """
    n = as_integer("n", n)
    if n < 1:
        raise ValueError(f"n must be at least 1; got {n}")
    dtype = _check_dtype(dtype)
    constants = p_scheme.measure(dtype, _check_operands(kind))
    chosen = p_scheme.choose(n, constants)
    return Report(
        p_scheme.name_device(),
        n,
        dtype,
        kind,
        constants,
        chosen,
        p_scheme.sweep(n, dtype, kind, chosen),
        p_scheme.copy_bandwidth(),
    )


def _check_dtype(dtype: Any) -> np.dtype[Any]:
    try:
        checked: np.dtype[Any] = np.dtype(dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(f"dtype must be a NumPy dtype; got {dtype!r}") from error
    if checked.char not in _DTYPES:
        raise TypeError(f"dtype must be an integer, float32, float64, complex64 or complex128; got {checked}")
    return checked


def _check_operands(name: str) -> str:
    if not is_one_of(name, _WORDS_A_STEP):
        raise ValueError(f"kind must be one of {', '.join(map(repr, _WORDS_A_STEP))}; got {name!r}")
    return name
