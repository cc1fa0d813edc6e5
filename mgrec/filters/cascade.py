"""A filter with constant coefficients, as a cascade of sections.

A section of order k has k states z, and one step of it is (direct form II transposed)

    y = b_0·x + z_0,    z_i = z_{i+1} + b_{i+1}·x − a_{i+1}·y    (i = 0 … k−1, z_k = 0).

The states of a cascade, one section after the other, obey z ← A·z + (terms of x). After L steps a
carry-in z has become A^L·z + offset. The summary of a chunk is its offset.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Section:
    """b(z)/a(z) with a_0 = 1; b and a have the length order + 1."""

    b: tuple[Any, ...]
    a: tuple[Any, ...]
    # Whether the denominator is a_0 alone. SciPy then convolves, and a nan leaves the states after
    # `order` steps. Otherwise it would remain, as 0·nan.
    is_convolution: bool = False
    # Whether a coefficient is complex, maybe without an imaginary part. It is part of comparisons,
    # because caches would otherwise take 1 + 0j for 1.
    is_complex: bool = field(init=False)

    def __post_init__(self) -> None:
        is_complex = any(isinstance(number, complex) for number in (*self.b, *self.a))
        object.__setattr__(self, "is_complex", is_complex)

    @property
    def order(self) -> int:
        return len(self.a) - 1

    @property
    def is_feed_forward(self) -> bool:
        return not any(self.a[1:])


@dataclass(frozen=True)
class Cascade:
    """Sections of the same order in series: each takes the output of the previous one."""

    sections: tuple[Section, ...]

    @classmethod
    def of_polynomials(cls, b: Any, a: Any) -> Cascade:
        """Return b(z)/a(z) as one section; b and a are 1-d, of any lengths, and a_0 is not 0."""
        dtype = np.result_type(np.asarray(b), np.asarray(a), np.float64)
        b, a = np.asarray(b, dtype), np.asarray(a, dtype)
        return _cached_cascade(b.tobytes(), a.tobytes(), dtype.char)

    @classmethod
    def of_sections(cls, sos: Any) -> Cascade:
        """Return a cascade of second-order sections, from an array (sections, 6) with a_0 = 1."""
        sos = np.asarray(sos)
        sos = sos.astype(np.result_type(sos, np.float64))
        return cls(tuple(Section(tuple(row[:3]), tuple(row[3:])) for row in sos.tolist()))

    def __reduce__(self) -> Any:
        # Without cached properties: plans compare pickles.
        return Cascade, (self.sections,)

    @property
    def order(self) -> int:
        """Order of each section."""
        return self.sections[0].order

    @property
    def states(self) -> int:
        """Number of scalars in the state."""
        return len(self.sections) * self.order

    @cached_property
    def is_complex(self) -> bool:
        return any(section.is_complex for section in self.sections)

    @property
    def is_feed_forward(self) -> bool:
        """Whether outputs depend on inputs only."""
        return self.sections[0].is_convolution

    def state_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of states for results of `dtype`."""
        is_complex = self.is_complex or dtype.kind == "c"
        return np.dtype(np.complex128 if is_complex else np.float64)

    def coefficients(self, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return b and a as arrays (sections, order + 1); a is (sections, 1) if feed-forward."""
        b = np.array([section.b for section in self.sections], dtype)
        a = np.array([section.a for section in self.sections], dtype)
        return b, a[:, :1] if self.is_feed_forward else a

    @cached_property
    def float64_coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        """The coefficients in float64. Do not write to them."""
        return self.coefficients(np.float64)

    @cached_property
    def radius(self) -> float:
        """The largest absolute value of a pole; below 1, states decay."""
        return max(_radius(section.a) for section in self.sections)

    @cached_property
    def decay(self) -> float:
        """Number of steps in which a state decays to about 2**-64 of itself; inf if it does not."""
        if self.radius == 0:
            return float(self.states)
        if not self.radius < 1:
            return np.inf
        return float(self.states - 64 * np.log(2) / np.log(self.radius))


@lru_cache(maxsize=1024)
def _radius(a: tuple[Any, ...]) -> float:
    # Cached because every call builds its sections again: eight of them took 0.6 ms.
    if not np.isfinite(a).all():
        return np.inf
    return float(max([*np.abs(np.roots(a)), 0.0]))


def _divided(values: np.ndarray, divisor: Any) -> np.ndarray:
    """Return quotients rounded once; NumPy rounds complex quotients several times."""
    if values.dtype.char != "D":
        return np.asarray(values / divisor)
    return np.asarray((values.astype(np.clongdouble) / divisor).astype(values.dtype))


@lru_cache(maxsize=256)
def _cached_cascade(b_bytes: bytes, a_bytes: bytes, dtype: str) -> Cascade:
    """Return one object for the same coefficients, so that its properties are computed once."""
    b, a = np.frombuffer(b_bytes, dtype), np.frombuffer(a_bytes, dtype)
    length = max(b.size, a.size)
    with np.errstate(all="ignore"):
        parts = [np.pad(_divided(part, a[0]), (0, length - part.size)) for part in (b, a)]
    taps, feedback = (tuple(part.tolist()) for part in parts)
    return Cascade((Section(taps, feedback, is_convolution=a.size == 1),))
