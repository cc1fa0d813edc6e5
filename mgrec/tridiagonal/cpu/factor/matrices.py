"""Factored tridiagonal matrices in host memory, and their solves on the threads of a process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from ....engines.cpu.compilation import writable
from ....engines.cpu.threads import run_in_threads, split_range
from ...singular import SingularSystemError
from .eliminate import factor
from .solve import TILE, solve_columns, solve_lines

# Lines side by side from so many on: 1,000 took 1.3 ns an unknown, and 2.2 to 3 one by one.
SIDE_BY_SIDE = 16
# Threads a line up to which factors pay. A line of 2**22 takes one thread 3.1 ns an unknown;
# solving it anew takes 9.2 on one thread and 3 to 4 on four.
WORTH = 4


@dataclass(frozen=True)
class Factored:
    """What :mod:`.eliminate` writes.

    Attributes
    ----------
    parts : tuple of arrays (outer, steps, inner)
        Multipliers, inverse pivots, what follows a pivot, what follows that, and where rows were
        exchanged. The last two are of length 1 where none was.
    is_swapped : bool
        Whether any row was exchanged.
    """

    parts: tuple[np.ndarray, ...]
    is_swapped: bool

    @property
    def is_finite(self) -> bool:
        return all(bool(np.isfinite(part).all()) for part in self.parts)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)


def factored(dl: np.ndarray, d: np.ndarray, du: np.ndarray) -> Factored:
    """Factor matrices, given by their full diagonals (outer, steps, inner); these are overwritten.

    Raises
    ------
    SingularSystemError
        A matrix is singular.
    """
    dl[:, :1] = du[:, -1:] = 0
    parts = (*(np.zeros_like(d) for _ in range(4)), np.zeros(d.shape, np.uint8))
    singular = -1
    if d.shape[1] > 1:
        singular = factor((dl, d, du), parts, _middle(d.shape[1]), np.ones(1, d.dtype))
    elif not d.all():
        singular = int((d.reshape(-1) == 0).argmax())
    if singular >= 0:
        raise SingularSystemError(singular)
    if d.shape[1] == 1:
        parts = (parts[0], 1 / d, *parts[2:])
    is_swapped = bool(parts[4].any())
    if not is_swapped:
        parts = (*parts[:3], *(np.zeros((1, 1, 1), part.dtype) for part in parts[3:]))
    return Factored(parts, is_swapped)


def _middle(steps: int) -> int:
    return (steps - 2) // 2


def is_worth(lines: int, threads: int) -> bool:
    """Whether solving with factors is faster than solving anew on so many threads."""
    return threads <= WORTH * lines


def solve(
    own: Factored,
    outer: np.ndarray,
    inner: np.ndarray,
    b: np.ndarray,
    x: np.ndarray,
    threads: int = 1,
) -> None:
    """Solve for right-hand sides.

    Parameters
    ----------
    own : Factored
    outer, inner : arrays of int64
        The index in the factor's outer and inner axis, of each of `b`.
    b, x : arrays (outer, steps, inner)
        C-contiguous; `x` is written.
    threads : int
    """
    rows, steps, columns = b.shape
    if not b.size:
        return
    if steps == 1:
        x[...] = b * own.parts[1][outer][:, :, inner]
        return
    b, width = writable(b), own.parts[0].shape[2]
    given = own.parts, own.is_swapped
    about = b, x, _middle(steps)
    if columns >= SIDE_BY_SIDE and (width == 1 or np.array_equal(inner, np.arange(width))):
        kernel = partial(solve_columns, *given, outer, *about)
        tasks = rows * -(-columns // TILE)
    else:
        kernel = partial(solve_lines, *given, (outer, inner), *about)
        tasks = rows * columns
    run_in_threads([partial(kernel, *part) for part in split_range(tasks, threads)])
