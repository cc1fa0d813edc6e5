"""Filters of constant coefficients: a cascade of sections.

A section of order k has k states z, and one step of it is (direct form II transposed)

    y = b_0·x + z_0,    z_i = z_{i+1} + b_{i+1}·x − a_{i+1}·y    (i = 0 … k−1, z_k = 0).

The states of a whole cascade, one section after the other, obey z ← A·z + (terms of x). So L
steps take a carry-in z to A^L·z + offset: the summary of a chunk is its offset, its carry-in is z.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

Numbers = tuple[Any, ...]


@dataclass(frozen=True)
class Section:
    """b(z)/a(z) with a_0 = 1.

    Attributes
    ----------
    b, a : tuple of float or complex
        Equally long: order + 1.
    is_convolution : bool
        The denominator was a_0 alone. SciPy then convolves, and a nan is forgotten; else it
        would come back as 0·nan from coefficients that are 0.
    """

    b: Numbers
    a: Numbers
    is_convolution: bool = False

    @property
    def order(self) -> int:
        return len(self.a) - 1

    @property
    def is_feed_forward(self) -> bool:
        return not any(self.a[1:])


@dataclass(frozen=True)
class Cascade:
    """Sections in series: each takes the output of the one before it.

    Attributes
    ----------
    sections : tuple of Section
        Of the same order.
    """

    sections: tuple[Section, ...]

    @classmethod
    def of_polynomials(cls, b: Any, a: Any) -> Cascade:
        """b(z)/a(z) as one section; 1-d arrays of any lengths, a_0 not 0."""
        b, a = np.asarray(b), np.asarray(a)
        wide = np.result_type(b, a, np.float64)
        b, a = b.astype(wide), a.astype(wide)
        if wide.char not in "dD":
            return cls(_section_of(b, a))
        return _cached(b.tobytes(), a.tobytes(), wide.char)

    @classmethod
    def of_sections(cls, sos: Any) -> Cascade:
        """Second-order sections, an array (sections, 6) with a_0 = 1."""
        sos = np.asarray(sos)
        sos = sos.astype(np.result_type(sos, np.float64))
        return cls(tuple(Section(tuple(row[:3]), tuple(row[3:])) for row in sos.tolist()))

    @property
    def order(self) -> int:
        """Of each section."""
        return self.sections[0].order

    @property
    def states(self) -> int:
        """Scalars of the state."""
        return len(self.sections) * self.order

    @cached_property
    def is_complex(self) -> bool:
        return any(isinstance(n, complex) for s in self.sections for n in (*s.b, *s.a))

    @property
    def is_feed_forward(self) -> bool:
        """Outputs depend on past inputs alone: a nan is forgotten."""
        return self.sections[0].is_convolution

    def coefficients(self, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
        """b and a as arrays (sections, order + 1); a is (1, 1) of a cascade of b alone."""
        b = np.array([section.b for section in self.sections], dtype)
        a = np.array([section.a for section in self.sections], dtype)
        return b, a[:, :1] if self.is_feed_forward else a

    @cached_property
    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """The same in float64, to be read alone."""
        return self.coefficients(np.float64)

    @cached_property
    def radius(self) -> float:
        """The largest size of a pole: below 1 the filter forgets."""
        return max(_radius(section.a) for section in self.sections)

    @cached_property
    def decay(self) -> float:
        """Steps after which a state has decayed to about 2**-64 of itself; inf if it does not."""
        if self.radius == 0:
            return float(self.states)
        if not self.radius < 1:
            return np.inf
        return float(self.states - 64 * np.log(2) / np.log(self.radius))


@lru_cache(maxsize=1024)
def _radius(a: Numbers) -> float:
    """Cached, since every call makes its sections anew: eight of them took 0.6 ms."""
    if not np.isfinite(a).all():
        return np.inf
    return float(max([*np.abs(np.roots(a)), 0.0]))


def _section_of(b: np.ndarray, a: np.ndarray) -> tuple[Section]:
    length = max(b.size, a.size)
    with np.errstate(all="ignore"):
        parts = [np.pad(_divided(part, a[0]), (0, length - part.size)) for part in (b, a)]
    taps, feedback = (tuple(part.tolist()) for part in parts)
    return (Section(taps, feedback, is_convolution=a.size == 1),)


def _divided(part: np.ndarray, by: Any) -> np.ndarray:
    """The quotients, rounded once; NumPy rounds those of complex numbers several times."""
    if part.dtype.char != "D":
        return np.asarray(part / by)
    return np.asarray((part.astype(np.clongdouble) / by).astype(part.dtype))


@lru_cache(maxsize=256)
def _cached(b: bytes, a: bytes, dtype: str) -> Cascade:
    """The same object for the same numbers: its cached properties are computed once."""
    return Cascade(_section_of(np.frombuffer(b, dtype), np.frombuffer(a, dtype)))
