"""The transfer maps of :mod:`mgrec.maps`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.algebra.exact import exponent_gap, inverse_power, power_of_two
from ..core.algebra.transfer_map import Map, TransferMap, affine, rare
from .matrix.maps import matrix

__all__ = ["affine", "matrix", "matrix2", "max_plus", "min_plus", "mobius"]


def __dir__() -> list[str]:
    return __all__


# A Möbius map (a, b, c, d, k) is the matrix with the columns (a, c) and (b, d)·2**k: the images of
# infinity and 0 in homogeneous coordinates, each with its own scale. With one scale for all four
# numbers the smaller column would vanish after some steps, and the image of infinity or 0 with it.

_LARGEST_GAP = 40  # columns at most 2**40 apart are multiplied without scaling


def _mobius_lift(a: Any, b: Any, c: Any, d: Any) -> Map:
    return a, b, c, d, 0


def _mobius_compose(earlier: Map, later: Map) -> Map:
    a, b, c, d, k = _scaled(earlier)
    # Weights of at least 1: products never underflow, and an overflow is detected.
    x, y = power_of_two(np.maximum(-later[4], 0)), power_of_two(np.maximum(later[4], 0))
    e, f, g, h = _product((x * a, x * b, y * c, y * d), later)
    first, second = np.abs(e) + np.abs(g), np.abs(f) + np.abs(h)
    needs_slow_path = (
        ~(first + second < np.inf)
        | (np.abs(later[4]) > _LARGEST_GAP)
        | _is_near_underflow(first)
        | _is_near_underflow(second)
    )
    if np.any(needs_slow_path):
        a, b, c, d, far = _compose_far(earlier, later)
        e, f, g, h = (
            np.where(needs_slow_path, a, e),
            np.where(needs_slow_path, b, f),
            np.where(needs_slow_path, c, g),
            np.where(needs_slow_path, d, h),
        )
        k = np.where(needs_slow_path, far, k)
    return e, f, g, h, k


def _is_near_underflow(size: Any) -> Any:
    """Return whether the next product of a column of this size may lose digits, or vanish."""
    return size * 2.0**-64 * 2.0**64 != size


@rare
def _compose_far(earlier: Map, later: Map) -> Map:
    """Compose maps with entries near overflow or underflow, or with columns far apart."""
    a, b, c, d, k = _normalised(earlier)
    later = _normalised(later)
    a, c, m = _balanced(a, c, later[4])
    b, d, n = _balanced(b, d, later[4])
    return (*_product((a, b, c, d), later), k + (n - m))


def _product(earlier: Map, later: Map) -> Map:
    a, b, c, d = earlier
    e, f, g, h, _ = later
    return e * a + f * c, e * b + f * d, g * a + h * c, g * b + h * d


def _scaled(step: Map) -> Map:
    """Scale a map so that the larger entry of each column is from 1 to 2."""
    a, b, c, d, k = step
    s = inverse_power(np.fmax(np.abs(a), np.abs(c)))
    t = inverse_power(np.fmax(np.abs(b), np.abs(d)))
    return s * a, t * b, s * c, t * d, k + exponent_gap(s, t)


def _normalised(step: Map) -> Map:
    """Scale a map, and set the exponent to 0 if a column is empty.

    A step with a = c = 0 empties the column of infinity for good. Without this, scaling continued
    to change the now meaningless exponent: past 2**-1074 the other column vanished.
    """
    a, b, c, d, k = _scaled(_in_range(step))
    is_empty = ((a == 0) & (c == 0)) | ((b == 0) & (d == 0))
    return a, b, c, d, np.where(is_empty, 0.0, k)


def _in_range(step: Map) -> Map:
    """Scale a map so that the sum of its four entries does not overflow."""
    a, b, c, d, k = step
    largest = np.fmax(np.fmax(np.abs(a), np.abs(b)), np.fmax(np.abs(c), np.abs(d)))
    return _limit(a, largest), _limit(b, largest), _limit(c, largest), _limit(d, largest), k


def _limit(entry: Any, largest: Any) -> Any:
    # An infinite entry outweighs all finite ones: the map's limit has ones and zeros.
    limit = np.where(np.isinf(entry), np.copysign(1.0, entry), 0.0 * entry)
    return np.where(np.isinf(largest), limit, np.where(largest > 1, 2.0**-5 * entry, entry))


def _balanced(x: Any, y: Any, apart: Any) -> tuple[Any, Any, Any]:
    """Return (x, y·2**apart)·2**-shift with the larger one from 1 to 2, and the shift."""
    s, t = inverse_power(np.abs(x)), inverse_power(np.abs(y))
    gap = exponent_gap(s, t) + apart
    second = ((gap > 0) & (y != 0)) | (x == 0)
    weak = np.exp2(-np.abs(gap))
    return (
        s * x * np.where(second, weak, 1.0),
        t * y * np.where(second, 1.0, weak),
        np.where(second, gap, 0.0) - exponent_gap(s, 1.0),
    )


def _mobius_apply(step: Map, p: Any) -> Any:
    a, b, c, d, k = step
    weight = power_of_two(k)
    above, below = a * p + b * weight, c * p + d * weight
    needs_slow_path = ~(np.abs(above) + np.abs(below) < np.inf) | (np.abs(k) > _LARGEST_GAP)
    if np.any(needs_slow_path):
        x, y = _apply_far(step, p)
        above, below = np.where(needs_slow_path, x, above), np.where(needs_slow_path, y, below)
    return above / below


@rare
def _apply_far(step: Map, p: Any) -> tuple[Any, Any]:
    # Homogeneous coordinates (x : y) of p; infinity is (1 : 0).
    x = np.where(np.isinf(p), np.copysign(1.0, p), p)
    y = np.where(np.isinf(p), 0.0 * x, np.abs(np.copysign(1.0, p)))
    a, b, c, d, k = _normalised(step)
    x, y, _ = _balanced(x, y, k)
    return a * x + b * y, c * x + d * y


mobius = TransferMap(
    _mobius_lift, _mobius_compose, _mobius_apply, (1, 0, 0, 1, 0), "mobius", check_laws=False
)


def _max_plus_lift(s: Any, c: Any) -> Map:
    return s, c


def _max_plus_compose(earlier: Map, later: Map) -> Map:
    s, c = later
    return earlier[0] + s, np.maximum(earlier[1] + s, c)


def _max_plus_apply(step: Map, w: Any) -> Any:
    s, c = step
    return np.maximum(w + s, c)


def _max_plus_vjp(grad: Any, w: Any, s: Any, c: Any) -> tuple[Any, Any, Any]:
    return _of_larger(grad, w + s, c)


def _of_larger(grad: Any, x: Any, y: Any) -> tuple[Any, Any, Any]:
    """Return the gradients of w, s and c where x = w + s is the larger one, or y = c.

    Equal ones have half of it each, as in torch and jax.
    """
    weight = 0.5 * (x > y) + 0.5 * (x >= y)
    return weight * grad, weight * grad, (1 - weight) * grad


max_plus = TransferMap(
    _max_plus_lift,
    _max_plus_compose,
    _max_plus_apply,
    (0, -np.inf),
    "max_plus",
    check_laws=False,
    vjp=_max_plus_vjp,
)


def _min_plus_compose(earlier: Map, later: Map) -> Map:
    s, c = later
    return earlier[0] + s, np.minimum(earlier[1] + s, c)


def _min_plus_apply(step: Map, w: Any) -> Any:
    s, c = step
    return np.minimum(w + s, c)


def _min_plus_vjp(grad: Any, w: Any, s: Any, c: Any) -> tuple[Any, Any, Any]:
    return _of_larger(grad, -w - s, -c)


min_plus = TransferMap(
    _max_plus_lift,
    _min_plus_compose,
    _min_plus_apply,
    (0, np.inf),
    "min_plus",
    check_laws=False,
    vjp=_min_plus_vjp,
)


def _matrix2_lift(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> Map:
    return a, b, c, d, e, f


def _matrix2_compose(earlier: Map, later: Map) -> Map:
    a, b, c, d, e, f = earlier
    p, q, r, s, u, v = later
    return (p * a + q * c, p * b + q * d, r * a + s * c, r * b + s * d, p * e + q * f + u, r * e + s * f + v)


def _matrix2_apply(step: Map, state: tuple[Any, Any]) -> tuple[Any, Any]:
    a, b, c, d, e, f = step
    x, y = state
    return a * x + b * y + e, c * x + d * y + f


def _matrix2_vjp(
    grad: tuple[Any, Any], state: tuple[Any, Any], a: Any, b: Any, c: Any, d: Any, e: Any, f: Any
) -> tuple[Any, ...]:
    (g, h), (x, y) = grad, state
    return (a * g + c * h, b * g + d * h), g * x, g * y, h * x, h * y, g, h


matrix2 = TransferMap(
    _matrix2_lift,
    _matrix2_compose,
    _matrix2_apply,
    (1, 0, 0, 1, 0, 0),
    "matrix2",
    check_laws=False,
    vjp=_matrix2_vjp,
)
