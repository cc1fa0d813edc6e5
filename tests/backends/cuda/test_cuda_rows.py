"""Kernels of rows whose tiles wait in shared memory, run on this machine, against a plain loop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cuda_cases import assert_close, draw, loop
from test_cuda_channels import _on_host, compiler, solve  # noqa: F401
from test_cuda_channels import layout_of as channels_of

from mgrec.algebra.transfer_map import TransferMap
from mgrec.backends.cuda.transfer.program import Layout
from mgrec.recurrences import maps

pytestmark = pytest.mark.extended

# Tiles of 32 threads of 3 vectors each.
SMALL = Layout(32, 12, 4, bulk=True, distance=2)
MAPS = [(maps.affine, 2, 1, "f4"), (maps.mobius, 4, 1, "f8"), (maps.matrix2, 6, 2, "f8")]


def layout_of(dtype: str, rows: int, **options: Any) -> Layout:
    items = 48 // np.dtype(dtype).itemsize
    return replace(SMALL, items=items, segmented=rows > 1, **options)


def operands_of(transfer_map: TransferMap, count: int, shape: Any, dtype: str) -> list[Any]:
    rng = np.random.default_rng(shape[1])
    operands = [draw(rng, shape, dtype, 0.45) for _ in range(count)]
    if transfer_map is maps.mobius:
        operands[0] += 2
        operands[3] += 3
    return operands


@pytest.mark.parametrize(("transfer_map", "count", "states", "dtype"), MAPS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 384, 1), (1, 13_001, 1), (7, 1003, 1)])
@pytest.mark.parametrize("reverse", [False, True])
def test_tiles_that_wait(
    transfer_map: TransferMap, count: int, states: int, dtype: str, shape: Any, reverse: bool
) -> None:
    operands = operands_of(transfer_map, count, shape, dtype)
    entry = [draw(np.random.default_rng(k), (shape[0], 1), dtype) for k in range(states)]
    layout = layout_of(dtype, shape[0], reverse=reverse)
    wide = [x.astype("f8") for x in (*operands, *entry)]
    wanted = loop(transfer_map, wide[:count], wide[count:], shape, reverse)
    assert_close(transfer_map, solve(transfer_map, operands, entry, shape, layout), wanted)


def test_bits_do_not_depend_on_the_distance() -> None:
    shape = (1, 13_001, 1)
    operands = operands_of(maps.mobius, 4, shape, "f4")
    entry = [np.ones((1, 1), "f4")]
    layout = layout_of("f4", 1)
    first = solve(maps.mobius, operands, entry, shape, layout)[0].view("i4")
    for other, blocks in (
        (layout, 1), (layout, 7), (replace(layout, stages=3), 5), (replace(layout, distance=1), 3),
        (replace(layout, distance=1, stages=2), 4), (replace(layout, distance=1, bulk=False), 3),
    ):  # fmt: skip
        found = solve(maps.mobius, operands, entry, shape, other, blocks)[0].view("i4")
        np.testing.assert_array_equal(found, first)


@pytest.mark.parametrize("shape", [(1, 13_001, 1), (7, 1003, 1), (1, 24 * 70 + 5, 3)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("reverse", [False, True])
def test_arrays_that_begin_anywhere(shape: Any, dtype: str, reverse: bool) -> None:
    """Bit for bit as arrays that begin at a multiple of 16 bytes."""
    operands, entry = operands_of(maps.affine, 2, shape, dtype), [np.ones(shape[::2], dtype)]
    vector = 16 // np.dtype(dtype).itemsize
    layout = replace(layout_of(dtype, shape[0], reverse=reverse), stages=2, distance=1)
    if shape[2] > 1:
        layout = channels_of(shape[2], vector, reverse=reverse)
    first = solve(maps.affine, operands, entry, shape, layout)[0].view("u1")
    for shifts in ((1, 0), (0, vector - 1), (1, 1)):
        moved = [aligned(x, shift) for x, shift in zip(operands, shifts, strict=True)]
        assert [x.ctypes.data % 16 // x.itemsize for x in moved] == list(shifts)
        found = solve(maps.affine, moved, entry, shape, layout)[0].view("u1")
        np.testing.assert_array_equal(found, first)


def aligned(array: Any, shift: int) -> Any:
    """A copy that begins so many items behind a multiple of 16 bytes."""
    memory = np.empty(array.nbytes + 64, np.uint8)
    begin = -memory.ctypes.data % 16 + shift * array.itemsize
    copy = memory[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
