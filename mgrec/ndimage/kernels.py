"""Symmetric and antisymmetric kernels that are sums of exponentials, and states beyond the ends.

A row of n samples is extended by a period: 2n samples for "reflect", 2n − 2 for "mirror" and n
for "wrap"; or by a constant. The states there are sums over the samples of chunks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

NEGLIGIBLE = 2.0**-60
"""Decay after which samples change no digit of a result in float64."""
SPLINES = {
    2: ((-0.1715728752538099, 1.4142135623730951),),
    3: ((-0.2679491924311227, 1.7320508075688772),),
    4: ((-0.36134122590022016, 2.2883164111860386), (-0.013725429297339121, -0.07558614591671702)),
    5: ((-0.4305753470999738, 3.0949864986866533), (-0.04309628820326465, -0.252815576665031)),
}
"""Poles and weights of the inverse of the sampled B-spline of each order (M. Unser, 1993).

The inverse g·Π_k 1/((1 − z_k/z)·(1 − z_k·z)) in partial fractions, rounded from 60 digits: in
float64 the formulas of the poles lose 9 of 53 bits to cancellation.
"""
RATES = (
    2.213563256015 + 0.476599141717j,
    2.205071729571 + 1.44419569846j,
    2.180323318476 + 2.467429440464j,
    2.124093422973 + 3.645740751084j,
)
"""The numbers r_k of the fit Re Σ_k w_k·exp(−r_k·t) to exp(−t²/2) and its derivatives, t ≥ 0.

The fit is that of Deriche (1993) with four pairs of poles instead of two. Nonlinear least squares
gave the rates. Linear ones gave the weights, whose first moments are those of the Gaussian.
"""
GAUSSIAN_WEIGHTS = (
    (
        3.863631899375 + 6.873814972653j,
        -3.148402057724 - 0.18274847479j,
        0.284130879742 - 0.336216332329j,
        0.000639258685 + 0.013238410837j,
    ),
    (
        -5.276902577389 - 17.056429811409j,
        6.679023448643 + 4.950245941201j,
        -1.448965310028 + 0.031726671567j,
        0.046844438774 - 0.030467111687j,
    ),
    (
        3.55184513614 + 40.27029766555j,
        -7.578736956705 - 20.561595738808j,
        3.237443879855 + 3.506127614301j,
        -0.210555327046 - 0.106059800614j,
    ),
)
"""The weights of exp(−t²/2), of its first and of its second derivative."""


class Part(NamedTuple):
    """A part of a chunk that its neighbours need: Σ_j p^j·x[j], where x[0] is the sample next to one end.

    `is_last`: whether that end is the last of the chunk; otherwise it is the first.
    `skipped`: number of samples at that end that are left out.
    `is_single`: whether the sum has one sample only.
    """

    is_last: bool
    skipped: int
    is_single: bool


FIRST, LAST = (Part(is_last, 0, False) for is_last in (False, True))
FIRST_INNER, LAST_INNER = (Part(is_last, 1, False) for is_last in (False, True))
FIRST_ALONE, LAST_ALONE = (Part(is_last, 0, True) for is_last in (False, True))


@dataclass(frozen=True)
class ExponentialSum:
    """The kernel h[n] = Re Σ_k w_k·p_k^|n|, times the sign of n if it is odd.

    h[0] is 0 if the kernel is odd; otherwise `center` is added to it.

    """

    poles: tuple[complex, ...]
    weights: tuple[complex, ...]
    is_odd: bool = False
    center: float = 0.0

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Hashes of a Gaussian's eight complex numbers took a microsecond at each look into a cache.
        return hash((self.poles, self.weights, self.is_odd, self.center))

    def __reduce__(self) -> Any:
        # Without cached properties: plans compare pickles.
        return ExponentialSum, (self.poles, self.weights, self.is_odd, self.center)

    @property
    def middle(self) -> float:
        """The weight h[0] of the sample itself."""
        return 0.0 if self.is_odd else sum(weight.real for weight in self.weights) + self.center

    @cached_property
    def reach(self) -> int:
        """Number of samples at a distance beyond which samples change no digit."""
        slowest = max(map(abs, self.poles))
        if slowest == 0:  # A Gaussian so narrow that its powers underflow.
            return 1
        return max(1, math.ceil(math.log(NEGLIGIBLE) / math.log(slowest)))

    def powers(self, count: int) -> np.ndarray:
        """Return p_k^j for j from 0 to count − 1, of shape (poles, count)."""
        return np.array([powers_of(pole, np.arange(count)) for pole in self.poles])

    def power(self, exponent: int) -> np.ndarray:
        """Return p_k^exponent of each pole."""
        return np.array([powers_of(pole, np.array(exponent)) for pole in self.poles])


def powers_of(pole: complex, exponents: np.ndarray) -> np.ndarray:
    """Return complex powers; those of a real pole have no imaginary part."""
    base = pole.real if pole.imag == 0 else pole
    return np.power(base, exponents.astype(np.float64)).astype(np.complex128)


@cache
def spline_kernel(order: int) -> ExponentialSum:
    """Return the inverse of the sampled B-spline of an order."""
    poles, weights = zip(*SPLINES[order], strict=True)
    return ExponentialSum(tuple(map(complex, poles)), tuple(map(complex, weights)))


@lru_cache(maxsize=1024)
def gaussian_kernel(sigma: float, order: int) -> ExponentialSum:
    """Return a Gaussian, or its first or second derivative, sampled at integers as in SciPy.

    The sum of a Gaussian is exactly 1, and the sums of its derivatives are those of the samples of
    the true ones, which are 0 for any but a narrow Gaussian.
    """
    rates = np.array(RATES) / sigma
    poles, weights = np.exp(-rates), np.array(GAUSSIAN_WEIGHTS[order])
    # Σ_{n≥1} p^n, with 1 − p from expm1: p is close to 1 for a wide Gaussian.
    beside = 2 * (weights * poles / -np.expm1(-rates)).sum().real
    middle = weights.sum().real
    if order == 0:
        return _exponential_sum(poles, weights / (middle + beside))
    total, second = _gaussian_sums(sigma)
    center = 0.0 if order == 1 else second - middle - beside
    scale = 1 / (total * sigma**order)
    return _exponential_sum(poles, weights * scale, order == 1, center * scale)


def _exponential_sum(poles: np.ndarray, weights: np.ndarray, *options: Any) -> ExponentialSum:
    return ExponentialSum(tuple(poles.tolist()), tuple(weights.tolist()), *options)


def sampled_variance(sigma: float) -> float:
    """Return the variance of a Gaussian that is sampled at integers, in units of sigma².

    >>> sampled_variance(3.5)
    1.0
    """
    total, second = _gaussian_sums(sigma)
    return 1 + second / total


def _gaussian_sums(sigma: float) -> tuple[float, float]:
    """Return Σ_n exp(−t²/2) and Σ_n (t² − 1)·exp(−t²/2) for t = n/sigma."""
    if sigma > 3:  # The sums are the integrals up to exp(−2·π²·sigma²).
        return sigma * math.sqrt(2 * math.pi), 0.0
    squares = (np.arange(-40, 41) / sigma) ** 2
    samples = np.exp(-squares / 2)
    return float(samples.sum()), float(((squares - 1) * samples).sum())


def state_before(
    kernel: ExponentialSum, lengths: Sequence[int], chunk: int, mode: str, cval: float
) -> tuple[dict[tuple[int, Part], np.ndarray], np.ndarray]:
    """Return the state before a chunk as weights of parts of chunks, and a constant.

    The state of a pole p is Σ_j p^j·x[−1 − j] over the samples before the chunk.
    """
    weights: dict[tuple[int, Part], np.ndarray] = {}
    zero = np.zeros(len(kernel.poles), complex)
    distance, poles = 0, np.array(kernel.poles)

    def add(source: int, part: Part, factor: Any = 1.0) -> None:
        key = source, part
        weights[key] = weights.get(key, zero) + kernel.power(distance) * factor

    for source in range(chunk - 1, -1, -1):
        if distance >= kernel.reach:
            return weights, zero
        add(source, LAST)
        distance += lengths[source]
    if mode == "constant":
        return weights, kernel.power(distance) * cval / (1 - poles)
    if mode == "nearest":
        add(0, FIRST_ALONE, 1 / (1 - poles))
        return weights, zero
    parts = list(_period(lengths, mode))
    factor = 1 / (1 - kernel.power(sum(length for *_, length in parts)))
    for source, part, length in parts:
        if distance >= kernel.reach:
            break
        add(source, part, factor)
        distance += length
    return weights, zero


def state_after(
    kernel: ExponentialSum, lengths: Sequence[int], chunk: int, mode: str, cval: float
) -> tuple[dict[tuple[int, Part], np.ndarray], np.ndarray]:
    """Return the state after a chunk, Σ_j p^j·x[j] over the samples after it."""
    last = len(lengths) - 1
    weights, constant = state_before(kernel, lengths[::-1], last - chunk, mode, cval)
    opposite = {
        (last - k, part._replace(is_last=not part.is_last)): value for (k, part), value in weights.items()
    }
    return opposite, constant


def _period(lengths: Sequence[int], mode: str) -> Iterator[tuple[int, Part, int]]:
    """Yield chunk, part and length of one period before the first sample, nearest first."""
    last = len(lengths) - 1
    if mode == "wrap":
        for k in range(last, -1, -1):
            yield k, LAST, lengths[k]
        return
    skipped = 1 if mode == "mirror" and sum(lengths) > 1 else 0
    yield 0, Part(False, skipped, False), lengths[0] - skipped
    for k in range(1, last + 1):
        yield k, FIRST, lengths[k]
    yield last, Part(True, skipped, False), lengths[last] - skipped
    for k in range(last - 1, -1, -1):
        yield k, LAST, lengths[k]
