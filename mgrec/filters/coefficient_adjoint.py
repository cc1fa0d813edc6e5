"""Gradients of the coefficients of a filter, from sums of its adjoint and its signals at lags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..core.arrays.array_types import is_lazy
from ..core.arrays.interop import library_of
from ..core.backends import backend_of
from ..solve.adjoint import conj, from_host, inner, part
from ..solve.functions import concatenate, full_like
from .kernels import kernels_of


@dataclass(frozen=True)
class AdjointCoefficients:
    """The coefficients of the adjoint of a filter: conjugate, and divided by the one of a_0.

    `b`, `a`: coefficients of the filter, 1-d, of NumPy or of a library that differentiates.
    """

    b: Any
    a: Any

    @cached_property
    def scale(self) -> Any:
        return 1 / conj(self.a[0])

    @cached_property
    def numerator(self) -> Any:
        return padded(conj(self.b) * self.scale, self.count)

    @cached_property
    def denominator(self) -> Any:
        return padded(conj(self.a) * self.scale, self.count)

    @cached_property
    def one(self) -> Any:
        """The numerator 1."""
        return padded(full_like(self.denominator[:1], 1), self.count)

    @property
    def count(self) -> int:
        """Length of the longer one of b and a."""
        return max(len(self.b), len(self.a))

    def gradients(self, sums: Sequence[Any]) -> tuple[Any, Any]:
        """Return the gradients of b and a from the sums over x, and those over y."""
        of_x, of_y = sums[0][: len(self.b)], sums[1][1 : len(self.a)]
        b, a, scale = (
            from_host(c, of_x)
            for c in (self.numerator[: len(self.b)], self.denominator[1 : len(self.a)], self.scale)
        )
        of_first = (of_y * a).sum() - (of_x * b).sum()
        return of_x * scale, concatenate([of_first.reshape(1), -of_y], 0) * scale


def padded(coefficients: Any, length: int) -> Any:
    """Return coefficients with zeros up to a length."""
    missing = length - len(coefficients)
    if not missing:
        return coefficients
    return concatenate([coefficients, *[full_like(coefficients[:1], 0)] * missing], 0)


def differentiate_coefficients(
    adjoint: Any, signals: tuple[Any, Any], axis: int, coefficients: AdjointCoefficients
) -> tuple[Any, Any]:
    """Return the gradients of b and a, from the adjoint and the signals x and y."""
    if library_of(adjoint) is None and not any(map(is_lazy, (adjoint, *signals))):
        differentiate = kernels_of(backend_of(adjoint)).differentiate_coefficients
        if differentiate is not None:
            return differentiate(adjoint, signals, axis, coefficients)
    return coefficients.gradients(
        [
            _correlation(adjoint, signal, axis, count)
            for signal, count in zip(signals, (len(coefficients.b), len(coefficients.a)), strict=True)
        ]
    )


def groups_of_one_dtype(dtypes: Sequence[np.dtype[Any]]) -> list[range]:
    """Return the numbers of all dtypes as one range if they are equal, otherwise one by one."""
    count = len(dtypes)
    return [range(count)] if len({*dtypes}) == 1 else [range(k, k + 1) for k in range(count)]


def _correlation(adjoint: Any, signal: Any, axis: int, count: int) -> Any:
    """Return Σ_n adjoint_{n+k}·conj(signal_n) for k below a count."""
    steps, available = signal.shape[axis], adjoint.shape[axis]
    sums = []
    for k in range(count):
        length = max(min(steps, available - k), 0)
        lagging = part(adjoint, axis, k, k + length)
        sums.append(inner(lagging, part(signal, axis, 0, length)).reshape(1))
    return concatenate(sums, 0)
