"""Transfer maps ready for use with :func:`mgrec.scan`.

==============  =====================================  ==================  ==========
map             one step                               operands            state
==============  =====================================  ==================  ==========
``affine``      w = s·w + t                            s, t                w
``mobius``      p = (a·p + b) / (c·p + d)              a, b, c, d          p
``max_plus``    w = max(w + s, c)                      s, c                w
``min_plus``    w = min(w + s, c)                      s, c                w
``matrix2``     x, y = a·x + b·y + e, c·x + d·y + f    a, b, c, d, e, f    x, y
==============  =====================================  ==================  ==========
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..phases.affine import affine
from ..phases.transfer_map import Map, TransferMap

__all__ = ["affine", "matrix2", "max_plus", "min_plus", "mobius"]


def _largest(a: Any, b: Any, c: Any, d: Any) -> Any:
    return np.maximum(np.maximum(np.abs(a), np.abs(b)), np.maximum(np.abs(c), np.abs(d)))


def _power_of_two_scale(a: Any, b: Any, c: Any, d: Any) -> Map:
    """The same map with its largest entry between 1/2 and 1."""
    exponent = -np.frexp(_largest(a, b, c, d))[1]
    return (
        np.ldexp(a, exponent),
        np.ldexp(b, exponent),
        np.ldexp(c, exponent),
        np.ldexp(d, exponent),
    )


def _limit(entry: Any, largest: Any) -> Any:
    # An infinite entry outweighs all finite ones: the map's limit has ones and zeros.
    limit = np.where(np.isinf(entry), np.copysign(1.0, entry), 0.0 * entry)
    return np.where(np.isinf(largest), np.where(np.isnan(entry), entry, limit), entry)


def _mobius_lift(a: Any, b: Any, c: Any, d: Any) -> Map:
    largest = _largest(a, b, c, d)
    return _limit(a, largest), _limit(b, largest), _limit(c, largest), _limit(d, largest)


def _mobius_compose(earlier: Map, later: Map) -> Map:
    a, b, c, d = _power_of_two_scale(*earlier)
    e, f, g, h = _power_of_two_scale(*later)
    return e * a + f * c, e * b + f * d, g * a + h * c, g * b + h * d


def _mobius_apply(step: Map, p: Any) -> Any:
    # Homogeneous coordinates (x : y) of p with max(|x|, |y|) = 1/4, which no sum with the
    # largest entries overflows; infinity is (1 : 0).
    a, b, c, d = step
    far = np.abs(p) > 1
    x = np.where(far, np.copysign(0.25, p), 0.25 * p)
    y = np.where(far, np.abs(0.25 / p), 0.25)
    return (a * x + b * y) / (c * x + d * y)


mobius = TransferMap(_mobius_lift, _mobius_compose, _mobius_apply, (1, 0, 0, 1), "mobius")


def _max_plus_lift(s: Any, c: Any) -> Map:
    return s, c


def _max_plus_compose(earlier: Map, later: Map) -> Map:
    s, c = later
    return earlier[0] + s, np.maximum(earlier[1] + s, c)


def _max_plus_apply(step: Map, w: Any) -> Any:
    s, c = step
    return np.maximum(w + s, c)


max_plus = TransferMap(_max_plus_lift, _max_plus_compose, _max_plus_apply, (0, -np.inf), "max_plus")


def _min_plus_compose(earlier: Map, later: Map) -> Map:
    s, c = later
    return earlier[0] + s, np.minimum(earlier[1] + s, c)


def _min_plus_apply(step: Map, w: Any) -> Any:
    s, c = step
    return np.minimum(w + s, c)


min_plus = TransferMap(_max_plus_lift, _min_plus_compose, _min_plus_apply, (0, np.inf), "min_plus")


def _matrix2_lift(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> Map:
    return a, b, c, d, e, f


def _matrix2_compose(earlier: Map, later: Map) -> Map:
    a, b, c, d, e, f = earlier
    p, q, r, s, u, v = later
    return (
        p * a + q * c,
        p * b + q * d,
        r * a + s * c,
        r * b + s * d,
        p * e + q * f + u,
        r * e + s * f + v,
    )


def _matrix2_apply(step: Map, state: tuple[Any, Any]) -> tuple[Any, Any]:
    a, b, c, d, e, f = step
    x, y = state
    return a * x + b * y + e, c * x + d * y + f


matrix2 = TransferMap(
    _matrix2_lift, _matrix2_compose, _matrix2_apply, (1, 0, 0, 1, 0, 0), "matrix2"
)
