"""A stand-in for a GPU that aligns, scorings and edges: for tests of the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from alignments import end_of, table_by_the_loop
from cuda_on_host import DeviceArray, HostCompiler, run_on_host

from mgrec.engines.cuda.device import Device
from mgrec.grids.alignment.cuda import layout, pairs, program, tile
from mgrec.grids.alignment.scoring import Scoring
from mgrec.grids.alignment.tiles import Edges, carry_in_from

LINEAR = Scoring(-2, -2, 3, -1)
AFFINE = Scoring(-5, -1, 3, -2)
MATRIX = np.random.default_rng(8).integers(-4, 9, (7, 7))
TABLE = Scoring(-6, -1, table=tuple(map(tuple, (MATRIX + MATRIX.T).tolist())))
HALVES = Scoring(-2.25, -0.5, 1.75, -0.75)
HALF_TABLE = Scoring(-2.5, -0.5, table=tuple(map(tuple, (MATRIX / 4).tolist())))
# Beyond int32, beyond bytes, more letters than a profile has, and letters that need not be equal.
LARGE = Scoring(-3 * 2**40, -(2**40), 2**41, -(2**40))
LARGE_TABLE = Scoring(-(2**40), -(2**40), table=tuple(map(tuple, (MATRIX * 2**40).tolist())))
WIDE_TABLE = Scoring(-500, -300, table=tuple(map(tuple, (MATRIX * 100).tolist())))
GOOD_MISMATCH = Scoring(-4, -4, 1, 3)
MODES = ["local", "global", "semi-global"]


def with_mode(scoring: Scoring, mode: str) -> Scoring:
    return Scoring(**(vars(scoring) | {"mode": mode}))


def align_on_host(compiler: HostCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let launches of alignments run here."""
    run_on_host(monkeypatch, compiler, tile, device=Device(90, 4, 227 * 1024))
    program.prepare_launch.cache_clear()
    program._on_device.cache_clear()
    use(monkeypatch, 2)


def use(monkeypatch: pytest.MonkeyPatch, rows: int, strips: int = 4) -> None:
    """Let lanes have so many rows: little grids have several strips and bands then."""
    monkeypatch.setattr(layout, "_ROWS", (rows,))
    monkeypatch.setattr(layout, "_STRIPS", (strips,))
    monkeypatch.setattr(pairs, "_rows", lambda *given: rows)
    layout.choose_launch.cache_clear()


def draw(seed: int, size: int, dtype: str = "u1", kinds: int = 4) -> Any:
    letters = np.random.default_rng(seed).integers(0, kinds, size)
    return letters.astype(dtype).view(DeviceArray)


def carry_in_of(scoring: Scoring, n: int, m: int, dtype: Any, seed: int = 0) -> Edges:
    """Edges that any neighbours may have."""
    rng = np.random.default_rng(seed)
    low = 0 if scoring.is_local else -30
    row, column = rng.integers(low, 20, m + 1), rng.integers(low, 20, n)
    gaps = (None, None)
    if scoring.is_affine:
        gaps = rng.integers(-40, 10, m).astype(dtype), rng.integers(-40, 10, n).astype(dtype)
    return Edges(row.astype(dtype), column.astype(dtype), *gaps)


def border_of(scoring: Scoring, n: int, m: int, dtype: Any) -> Edges:
    return carry_in_from(scoring, None, None, (0, 0), (n, m), np.dtype(dtype))


def pair_by_the_loop(scoring: Scoring, query: Any, target: Any, dtype: Any) -> tuple[Any, ...]:
    h, *_ = table_by_the_loop(scoring, query, target, dtype)
    return end_of(h, scoring.mode)
