"""Kernels of flat rows over arrays that begin anywhere, run on this machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_cases import draw
from test_cuda_channels import COMPILER, _on_host, solve  # noqa: F401
from test_cuda_channels import layout_of as channels_of

from mgrec.scans import maps
from mgrec.scans.cuda.program import Layout


@pytest.mark.extended
@pytest.mark.parametrize("shape", [(1, 13_001, 1), (7, 1003, 1), (1, 24 * 70 + 5, 3)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("reverse", [False, True])
def test_arrays_that_begin_anywhere(shape: Any, dtype: str, reverse: bool) -> None:
    """Bit for bit as arrays that begin at a multiple of 16 bytes."""
    rng = np.random.default_rng(shape[1])
    operands, carry_in = [draw(rng, shape, dtype) for _ in range(2)], [np.ones(shape[::2], dtype)]
    vector = 16 // np.dtype(dtype).itemsize
    # Tiles of 32 threads of 3 vectors each.
    layout = Layout(32, 3 * vector, 2, reverse=reverse, bulk=True, segmented=shape[0] > 1)
    if shape[2] > 1:
        layout = channels_of(shape[2], vector, reverse=reverse)
    first = solve(maps.affine, operands, carry_in, shape, layout)[0].view("u1")
    for shifts in ((1, 0), (0, vector - 1), (1, 1)):
        moved = [shifted(x, shift) for x, shift in zip(operands, shifts, strict=True)]
        assert [x.ctypes.data % 16 // x.itemsize for x in moved] == list(shifts)
        found = solve(maps.affine, moved, carry_in, shape, layout)[0].view("u1")
        np.testing.assert_array_equal(found, first)


def shifted(array: Any, shift: int) -> Any:
    """A copy that begins so many items behind a multiple of 16 bytes."""
    memory = np.empty(array.nbytes + 64, np.uint8)
    begin = -memory.ctypes.data % 16 + shift * array.itemsize
    copy = memory[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
