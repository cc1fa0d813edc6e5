"""A cubic spline through many points: its slopes at the knots are one tridiagonal system.

The slopes are compared with those of ``scipy.interpolate.CubicSpline``, which is timed beside them;
with natural ends, or those that are *not a knot*, SciPy's default.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np
from scipy.interpolate import CubicSpline

import mgrec

from ..harness.command import Options, parser_of
from .arrays import OPTIONS, placed, repeat

ENDS = ("not-a-knot", "natural")


def slopes(x: Any, y: Any, ends: str) -> Any:
    """First derivatives, at the knots x, of the cubic spline through the points (x, y).

    The second derivative is continuous at every inner knot i, where the intervals beside it are
    h[i-1] and h[i] long, and the secants over them have the slopes m[i-1] and m[i]::

        h[i]·s[i-1] + 2·(h[i-1] + h[i])·s[i] + h[i-1]·s[i+1] = 3·(h[i]·m[i-1] + h[i-1]·m[i])
    """
    h = x[1:] - x[:-1]
    m = (y[1:] - y[:-1]) / h
    before, after = h[:-1], h[1:]
    first, last = (_end(h[k : k + 2], m[k : k + 2], ends, k == 0) for k in (0, h.size - 2))
    dl = np.concatenate([first[:1] * 0, after, last[1:2]])
    d = np.concatenate([first[:1], 2 * (before + after), last[:1]])
    du = np.concatenate([first[1:2], before, last[:1] * 0])
    b = np.concatenate([first[2:], 3 * (after * m[:-1] + before * m[1:]), last[2:]])
    if isinstance(b, da.Array):  # as long as y's, but for what was put at both ends
        dl, d, du, b = (part.rechunk(y.chunks) for part in (dl, d, du, b))
    return mgrec.solve_tridiagonal(dl, d, du, b)


def _end(h: Any, m: Any, ends: str, is_first: bool) -> Any:
    """What the end says: coefficients of its slope and of the one beside it, right-hand side."""
    (near, far), (m_near, m_far) = (h, m) if is_first else (h[::-1], m[::-1])
    if ends == "natural":
        return np.stack([near * 0 + 2, near * 0 + 1, 3 * m_near])
    both = near + far
    known = ((near + 2 * both) * far * m_near + near**2 * m_far) / both
    return np.stack([far, both, known])


def draw(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Knots at uneven distances, and a noisy wave."""
    generator = np.random.default_rng(4)
    x = np.cumsum(generator.uniform(0.5, 1.5, size))
    return x, np.sin(x / 50) + 0.1 * generator.normal(size=size)


SPLINE: Options = {
    "--size": {"type": int, "default": 10**6, "help": "points"},
    "--ends": {"choices": ENDS, "default": ENDS[0]},
}


def main(given: Sequence[str] | None = None) -> float:
    """Compare and time; returns the largest difference from SciPy's slopes."""
    arguments = parser_of(__doc__, {**OPTIONS, **SPLINE}).parse_args(given)
    points, ends = draw(arguments.size), arguments.ends
    x, y = (placed(part, arguments.array, 0, 4) for part in points)
    for _ in range(2):  # the first one compiles
        found, seconds = repeat(y, [lambda y: slopes(x, y, ends)])
    begin = time.perf_counter()
    wanted = CubicSpline(*points, bc_type=ends)
    scipys = time.perf_counter() - begin
    difference = float(np.abs(found - wanted(points[0], 1)).max())
    print(
        f"{arguments.size:,} points, {ends}, by {arguments.array}: {seconds * 1e3:.1f} ms (SciPy "
        f"{scipys * 1e3:.1f}); largest difference of a slope {difference:.1e}"
    )
    return difference


if __name__ == "__main__":
    main()
