"""A cubic spline through many points: its slopes at the knots are one tridiagonal system.

The slopes are compared with those of ``scipy.interpolate.CubicSpline``, which is timed beside them;
with natural ends, or those that are *not a knot*, SciPy's default.

usage: python -m benchmarks.applications.spline [--size N] [--array numpy|cupy|dask]
       [--ends not-a-knot|natural]
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import dask.array as da
import numpy as np
from scipy.interpolate import CubicSpline

import mgrec

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


def placed(array: np.ndarray, kind: str) -> Any:
    if kind == "dask":
        return da.from_array(array, chunks=-(-array.size // 4))
    if kind == "cupy":
        import cupy

        return cupy.asarray(array)
    return array


def main(given: list[str] | None = None) -> float:
    """Compare and time; returns the largest difference from SciPy's slopes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=10**6, help="points")
    parser.add_argument("--array", choices=("numpy", "cupy", "dask"), default="numpy")
    parser.add_argument("--ends", choices=ENDS, default=ENDS[0])
    arguments = parser.parse_args(given)
    points = draw(arguments.size)
    x, y = (placed(part, arguments.array) for part in points)
    seconds = []
    for _ in range(2):  # the first one compiles
        begin = time.perf_counter()
        found = slopes(x, y, arguments.ends)
        found = found.get() if arguments.array == "cupy" else np.asarray(found)
        seconds.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    wanted = CubicSpline(*points, bc_type=arguments.ends)
    scipys = time.perf_counter() - begin
    difference = float(np.abs(found - wanted(points[0], 1)).max())
    print(f"{arguments.size:,} points, {arguments.ends}, by {arguments.array}: "
          f"{seconds[-1] * 1e3:.1f} ms (SciPy {scipys * 1e3:.1f}); "
          f"largest difference of a slope {difference:.1e}")  # fmt: skip
    return difference


if __name__ == "__main__":
    main()
