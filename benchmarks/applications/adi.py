"""Diffusion on a square by alternating directions (Peaceman and Rachford 1955).

Each step of u_t = u_xx + u_yy, with u = 0 at the border, is implicit along one axis and then along
the other: as many tridiagonal systems as there are rows, then as there are columns, all in the
layout that the field has. A sine wave decays by a factor that is known exactly, which checks
every run; the picture shows a field of hot spots before and after.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np

import mgrec

from ..harness.command import Options, parser_of

TIME = 4e-5  # of a step; the side of the square is 1


def placed(array: np.ndarray, kind: str) -> Any:
    """Return the array as one of a kind; Dask's has two chunks of rows."""
    if kind == "dask":
        return da.from_array(array, chunks=(-(-array.shape[0] // 2), -1))
    if kind == "cupy":
        import cupy

        return cupy.asarray(array)
    return array


def to_host(array: Any) -> np.ndarray:
    return np.asarray(array.get() if hasattr(array, "get") else array)


def rate_of(size: int) -> float:
    """dt / (2·h²); explicit steps allow 1/8."""
    return TIME / 2 * (size + 1) ** 2


def second_difference(u: Any, axis: int) -> Any:
    """u_{i-1} - 2·u_i + u_{i+1} along an axis, 0 beyond its ends."""
    if isinstance(u, da.Array):
        return da.map_overlap(_inside, u, depth={axis: 1}, boundary=0, axis=axis, dtype=u.dtype)
    wide = [(0, 0), (0, 0)]
    wide[axis] = (1, 1)
    padded = np.pad(u, wide)
    return _inside(padded, axis)[(slice(None),) * axis + (slice(1, -1),)]


def _inside(padded: Any, axis: int) -> Any:
    """The second difference but for the first and the last entry, which are not used."""
    found = -2 * padded
    inner, before, after = ((slice(None),) * axis + (cut,) for cut in _CUTS)
    found[inner] += padded[before] + padded[after]
    return found


_CUTS = slice(1, -1), slice(None, -2), slice(2, None)


def step(u: Any) -> Any:
    """One step in time."""
    rate = rate_of(u.shape[0])
    for implicit in (0, 1):
        known = u + rate * second_difference(u, 1 - implicit)
        u = mgrec.solve_tridiagonal(-rate, 1 + 2 * rate, -rate, known, axis=implicit)
    return u


def wave(size: int, p: int, q: int) -> tuple[np.ndarray, float]:
    """A sine wave, and the factor by which it decays in one step."""
    at = np.arange(1, size + 1) / (size + 1)
    rate = rate_of(size)
    rows, columns = (np.sin(k * np.pi * at) for k in (p, q))
    x, y = (-4 * np.sin(k * np.pi / (2 * (size + 1))) ** 2 * rate for k in (p, q))
    return np.outer(rows, columns), (1 + x) / (1 - x) * (1 + y) / (1 - y)


def spots(size: int) -> np.ndarray:
    """A cold square with hot spots."""
    centres = np.random.default_rng(3).uniform(0.15, 0.85, (8, 2))
    at = np.arange(1, size + 1) / (size + 1)
    return sum(np.exp(-((at[:, None] - x) ** 2 + (at - y) ** 2) / 0.001) for x, y in centres)


def run(field: np.ndarray, kind: str, steps: int) -> tuple[np.ndarray, float]:
    """The field after some steps, in host memory, and the seconds of a step."""
    u = placed(field, kind)
    to_host(step(u))  # compiles
    begin = time.perf_counter()
    for _ in range(steps):
        u = step(u)
        u = u.persist() if isinstance(u, da.Array) else u
    result = to_host(u)
    return result, (time.perf_counter() - begin) / steps


def draw(before: np.ndarray, after: np.ndarray, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
    every = max(1, before.shape[0] // 1000)
    for ax, field, title in zip(axes, (before, after), ("before", "after"), strict=True):
        ax.imshow(field[::every, ::every], cmap="inferno", vmin=0, vmax=float(before.max()))
        ax.set(title=title, xticks=[], yticks=[])
    figure.savefig(path)
    plt.close(figure)


OPTIONS: Options = {
    "--array": {"choices": ("numpy", "cupy", "dask"), "default": "numpy"},
    "--size": {"type": int, "default": 1024, "help": "of the field, along each axis"},
    "--steps": {"type": int, "default": 10},
    "--out": {"type": Path, "help": "picture of hot spots before and after"},
}


def main(given: Sequence[str] | None = None) -> float:
    """Check, time and draw; returns the largest deviation from the exact decay."""
    arguments = parser_of(__doc__, OPTIONS).parse_args(given)
    size, steps, kind = arguments.size, arguments.steps, arguments.array
    field, factor = wave(size, 3, 5)
    found, seconds = run(field, kind, steps)
    deviation = float(np.abs(found - factor**steps * field).max())
    print(
        f"{size}² by {kind}: {seconds * 1e3:.1f} ms a step, {seconds / size**2 / 2 * 1e9:.1f} ns "
        f"an unknown; largest deviation from the exact decay {deviation:.1e}"
    )
    if arguments.out:
        before = spots(size)
        draw(before, run(before, kind, steps)[0], arguments.out)
    return deviation


if __name__ == "__main__":
    main()
