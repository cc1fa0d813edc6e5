"""The kernels of summed-area tables compile for every architecture, without a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import test_cuda_compilation as kernels

from mgrec.engines.cuda.device import Device
from mgrec.grids.table.cuda.layout import choose_partition
from mgrec.grids.table.cuda.program import build_launch

# Strips down and to the right, and images that are one strip.
SHAPES = [(1, 16_384, 16_384), (1, 2**15, 2**10), (10_000, 64, 64)]
DTYPES = [
    ("f4", "f4"), ("f8", "f8"), ("c8", "c8"), ("c16", "c16"), ("u1", "i4"),
    *((code, "u8" if code in "B H I L" else "i8") for code in "?bhilBHIL"),
    ("u1", "u1"), ("u1", "c16"), ("i8", "i1"), ("f8", "f4"),
]  # fmt: skip


@pytest.mark.parametrize(("x", "summed"), DTYPES, ids=" ".join)
def test_kernels_compile_and_fit(compile_text: Any, x: str, summed: str, architecture: int) -> None:
    device = Device(architecture, 100, kernels.SHARED_BYTES[architecture])
    for number, shape in enumerate(SHAPES):
        for is_aligned in (True, False):
            if x == "c16" and not is_aligned:
                continue  # numbers of 16 bytes are words themselves
            partition = choose_partition(shape, np.dtype(x), np.dtype(summed), is_aligned, device)
            launch = build_launch(partition, device)
            declared = partition.layout.kernel_bytes
            assert launch.shared_bytes + declared <= device.shared_bytes
            assert declared <= 48 * 1024
            # Few differences between architectures: one has all kernels, others one each.
            if architecture == 90 or (number, is_aligned) == (0, True):
                compile_text(launch.text, architecture)
