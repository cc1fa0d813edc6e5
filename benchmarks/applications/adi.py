"""Diffusion on a square by alternating directions (Peaceman and Rachford 1955).

Each step of u_t = u_xx + u_yy, with u = 0 at the border, is implicit along one axis and then along
the other: as many tridiagonal systems as there are rows, then as there are columns, all in the
layout that the field has. A sine wave decays by a factor that is known exactly, which checks
every run; the picture shows a field of hot spots before and after.

usage: python -m benchmarks.applications.adi [--size N] [--array numpy|cupy|dask] [--steps K]
       [--out PICTURE]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np

import mgrec

TIME = 4e-5  # of a step; the side of the square is 1


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
    return sum(
        np.exp(-((at[:, None] - x) ** 2 + (at - y) ** 2) / 0.001) for x, y in centres
    )  # fmt: skip


def placed(field: np.ndarray, kind: str) -> Any:
    """The field as an array of a kind."""
    if kind == "dask":
        return da.from_array(field, chunks=-(-field.shape[0] // 2))
    if kind == "cupy":
        import cupy

        return cupy.asarray(field)
    return field


def run(field: np.ndarray, kind: str, steps: int) -> tuple[np.ndarray, float]:
    """The field after some steps, in host memory, and the seconds of a step."""
    u = placed(field, kind)
    step(u)  # compiles
    begin = time.perf_counter()
    for _ in range(steps):
        u = step(u).persist() if kind == "dask" else step(u)
    result = u.get() if kind == "cupy" else np.asarray(u)
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


def main(given: list[str] | None = None) -> float:
    """Check, time and draw; returns the largest deviation from the exact decay."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1024, help="of the field, along each axis")
    parser.add_argument("--array", choices=("numpy", "cupy", "dask"), default="numpy")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--out", type=Path, help="picture of hot spots before and after")
    arguments = parser.parse_args(given)
    field, factor = wave(arguments.size, 3, 5)
    found, seconds = run(field, arguments.array, arguments.steps)
    deviation = float(np.abs(found - factor**arguments.steps * field).max())
    unknowns = 2 * arguments.size**2
    print(f"{arguments.size}² by {arguments.array}: {seconds * 1e3:.1f} ms a step, "
          f"{seconds / unknowns * 1e9:.1f} ns an unknown; largest deviation from the exact "
          f"decay {deviation:.1e}")  # fmt: skip
    if arguments.out:
        before = spots(arguments.size)
        draw(before, run(before, arguments.array, arguments.steps)[0], arguments.out)
    return deviation


if __name__ == "__main__":
    main()
