"""How CUDA kernels divide alignments into tiles and among GPUs, run on this machine."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest
from alignments import assert_right, by_the_loop
from cuda_on_host import DeviceArray, HostCompiler, forget_launches, use_device

import mgrec
from mgrec.core.contract.grid import Bands
from mgrec.engines.cuda.device import Device
from mgrec.grids.alignment import cuda, layout
from mgrec.grids.alignment.recurrence import best_cell, carry_in_from
from mgrec.grids.alignment.scoring import Scoring

extended = pytest.mark.extended
LINEAR = {"match": 3, "mismatch": -1, "gap": -2}
AFFINE = {"match": 3, "mismatch": -2, "gap": -5, "extend": -1}
MATRIX = np.random.default_rng(8).integers(-4, 9, (4, 4))
TABLE = {"matrix": MATRIX + MATRIX.T, "gap": -6, "extend": -1}
MODES = ["local", "global", "semi-global"]


@pytest.fixture(autouse=True)
def _on_host(on_host: HostCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    use_device(monkeypatch, Device(90, 4, 227 * 1024))
    use_rows(monkeypatch, 2)


def use_rows(monkeypatch: pytest.MonkeyPatch, rows: int, strips: int = 4) -> None:
    """Let lanes have so many rows: little grids have several strips and bands then."""
    monkeypatch.setattr(layout, "_ROWS", (rows,))
    monkeypatch.setattr(layout, "_STRIPS", (strips,))
    monkeypatch.setattr(cuda, "_rows", lambda *given: rows)
    forget_launches()


def draw(seed: int, size: int) -> Any:
    return np.random.default_rng(seed).integers(0, 4, size).astype("u1")


def on_device(block: Any) -> Any:
    return np.ascontiguousarray(block).view(DeviceArray)


def in_chunks(array: Any, size: int) -> Any:
    meta = on_device(array[:0])
    return da.from_array(array, chunks=max(1, size)).map_blocks(on_device, meta=meta)


@extended
@pytest.mark.parametrize(
    ("rows", "strips", "wide"),
    [(4, 4, 1), (6, 4, 2), (8, 4, 4), (12, 4, 1), (16, 4, 2), (2, 1, 1), (2, 1, 2)],
)
def test_how_a_tile_is_cut_does_not_matter(
    rows: int, strips: int, wide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "_LATENCIES", {wide: (150, 8, 1.0)})
    monkeypatch.setattr(layout, "_LATENCIES_WRITTEN", {wide: (150, 8, 1.0)})
    use_rows(monkeypatch, rows, strips)
    for scores in (LINEAR, TABLE):
        if rows < 12:
            pair = draw(1, 150), draw(2, 61)
            wanted = by_the_loop(pair, scores)
            assert_right(tuple(map(on_device, pair)), wanted, scores)
            assert_right((in_chunks(pair[0], 76), in_chunks(pair[1], 31)), wanted, scores)
        pair = draw(9, 32 * strips * rows + 5), draw(20, 20)
        found = mgrec.smith_waterman(*map(on_device, pair), **scores)
        assert found == by_the_loop(pair, scores)[1]


@pytest.mark.parametrize(
    ("launch", "kernels"), [(100, {"pairs_kernel", "tile_kernel"}), (0, {"tile_kernel"})]
)
@pytest.mark.parametrize("mode", ["local", *(pytest.param(m, marks=extended) for m in MODES[1:])])
def test_long_pairs_are_tiles(
    mode: str, launch: int, kernels: Any, on_host: HostCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "_SLOWER", 0)
    monkeypatch.setattr(cuda, "_LAUNCH", launch)
    sizes, scores = ([40, 50, 5, 30], [20, 60, 90, 70]), AFFINE | {"mode": mode}
    sides = [[draw(100 * k + n, n) for n in side] for k, side in enumerate(sizes)]
    have = mgrec.smith_waterman(*([*map(on_device, side)] for side in sides), **scores)
    wanted = [by_the_loop(pair, scores)[1] for pair in zip(*sides, strict=True)]
    for part, values in zip(have, zip(*wanted, strict=True), strict=True):
        np.testing.assert_array_equal(part, values)
    assert {name for name, *_ in on_host.launches} == kernels


def run_of_bands(scoring: Scoring, pair: Any, dtype: str, bands: Bands) -> Any:
    sizes = tuple(len(sequence) for sequence in pair)
    carry_in = carry_in_from(scoring, None, None, (0, 0), sizes, np.dtype(dtype))
    parts = [np.array_split(on_device(sequence), 3) for sequence in pair]
    return cuda.launch_bands(scoring, parts, carry_in, dtype, bands)


@pytest.mark.parametrize(
    ("scoring", "dtype"),
    [
        (Scoring(-2, -2, 3, -1), "i8"),
        (Scoring(-5, -1, 3, -2, mode="semi-global"), "i8"),
        pytest.param(Scoring(-5, -1, 3, -2, mode="global"), "i8", marks=extended),
        pytest.param(Scoring(-2.25, -0.5, 1.75, -0.75), "f8", marks=extended),
    ],
)
@pytest.mark.parametrize("count", [2, 3])
def test_gpus_share_a_grid(scoring: Scoring, dtype: str, count: int) -> None:
    """Each run of bands takes the row of the run before from memory that both can reach."""
    pair = draw(1, 900), draw(2, 70)  # four bands of rows
    (whole, _), columns, best = (run_of_bands(scoring, pair, dtype, Bands(0, 1))(False), [], [])
    # Earlier launches have left tags up to 3.
    words = [np.full(4 * 70, 3 << 32 | 5, np.uint64) for _ in range(count)]
    addresses = [own.ctypes.data for own in words] + [0]
    for k in range(count):
        bands = Bands(k, count, addresses[k] if k else 0, addresses[k + 1], 3, 3)
        edges, row = run_of_bands(scoring, pair, dtype, bands)(False)
        assert row == sum(map(len, columns))
        columns.append(edges.column)
        best.append(edges.best)
    np.testing.assert_array_equal(np.concatenate(columns), whole.column)
    np.testing.assert_array_equal(edges.row, whole.row)
    assert best_cell(*best) == whole.best


def test_a_gpu_does_not_wait_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "PATIENCE", 1000)
    words = np.zeros(4 * 20, np.uint64)
    bands = Bands(1, 2, words.ctypes.data)
    wait = run_of_bands(Scoring(-2, -2, 3, -1), (draw(1, 900), draw(2, 20)), "i8", bands)
    with pytest.raises(RuntimeError, match="has not passed on its last row"):
        wait(False)
