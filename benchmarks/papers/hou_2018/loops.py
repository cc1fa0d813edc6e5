"""The paper's loops as calls: each of a random grid, into a result that exists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import mgrec

Call = Callable[[], Any]
STRATEGIES = ("compensation", "tiles", "hyperplane", "hybrid")


@dataclass(frozen=True)
class Loop:
    """One of the paper's loops over one grid.

    Attributes
    ----------
    name : str
    words : int
        Numbers read and written a cell.
    out : array
    call : callable, ``(strategy=...) -> None``
    own : callable, ``() -> None``
        mgrec's function of the loop; smith_waterman finds the best score and keeps no grid.
    own_name : str
    """

    name: str
    words: int
    out: Any
    call: Callable[..., Any]
    own: Call
    own_name: str


def loops(xp: Any, rows: int, columns: int) -> Iterator[Loop]:
    """SAT, SW and SOR over random grids, of NumPy or CuPy as `xp`."""
    generator = xp.random.default_rng(rows)
    yield sat(xp, generator, (rows, columns))
    yield sw(xp, generator, (rows, columns))
    yield sor(xp, generator, (rows, columns))


def sat(xp: Any, generator: Any, shape: tuple[int, int]) -> Loop:
    """A[i, j] = p[i, j] + A[i, j-1] + A[i-1, j] - A[i-1, j-1]."""
    x = generator.random(shape, dtype="f4")
    out = xp.empty_like(x)
    call = partial(mgrec.wavefront, x, weights=(1, 1, -1), out=out)
    own = partial(mgrec.summed_area_table, x, dtype="f4", out=xp.empty_like(x))
    return Loop("SAT", 2, out, call, own, "summed_area_table")


def sw(xp: Any, generator: Any, shape: tuple[int, int]) -> Loop:
    """A[i, j] = max(A[i, j-1] - 2, A[i-1, j] - 2, A[i-1, j-1] + s[i, j], 0)."""
    query, target = (generator.integers(0, 4, n, dtype="u1") for n in shape)
    scores = xp.where(query[:, None] == target, 3, -3).astype("i4")
    nothing = xp.broadcast_to(xp.asarray([[-(2**20)]], "i4"), shape)
    out = xp.empty(shape, "i4")
    call = partial(
        mgrec.wavefront, nothing, weights=(-2, -2, scores), operators=("max", "+"), floor=0,
        above=0, left=0, corner=0, out=out,
    )  # fmt: skip
    own = partial(mgrec.smith_waterman, query, target, match=3, mismatch=-3, gap=-2)
    return Loop("SW", 2, out, call, own, "smith_waterman, score")


def sor(xp: Any, generator: Any, shape: tuple[int, int]) -> Loop:
    """A[i, j] = (A[i, j] + A[i, j-1] + A[i-1, j] + A[i+1, j] + A[i, j+1]) / 5.

    What is read of the grid before the sweep is added up beforehand: it depends on no result.
    """
    x = generator.random((shape[0] + 2, shape[1] + 2), dtype="f4")
    old = (x[1:-1, 1:-1] + x[2:, 1:-1] + x[1:-1, 2:]) * xp.float32(0.2)
    out = xp.empty_like(old)
    above, left = xp.ascontiguousarray(x[0, 1:-1]), xp.ascontiguousarray(x[1:-1, 0])
    call = partial(
        mgrec.wavefront, old, weights=(0.2, 0.2, 0), above=above, left=left, corner=0, out=out
    )
    own = partial(mgrec.sor, x, omega=0.8, out=xp.empty_like(x))
    return Loop("SOR", 2, out, call, own, "sor")
