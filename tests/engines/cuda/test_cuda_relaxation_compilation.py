"""The kernels of successive over-relaxation compile for every architecture, without a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import test_cuda_compilation as kernels

from mgrec.engines.cuda.device import Device
from mgrec.grids.sor.cuda.layout import choose_partition, group_counts
from mgrec.grids.sor.cuda.program import build_launch

# Several strips, and one.
SHAPES = [(1, 16_384, 16_384), (1000, 20, 30)]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_kernels_compile_and_fit(compile_text: Any, dtype: str, architecture: int) -> None:
    device = Device(architecture, 100, kernels.SHARED_BYTES[architecture])
    own = np.dtype(dtype)
    for has_rhs in (False, True):
        for sweeps in group_counts(own, has_rhs, device.shared_bytes):
            for shape in SHAPES:
                partition = choose_partition(shape, own, sweeps, has_rhs, has_rhs, device)
                launch = build_launch(partition, device)
                assert launch.shared_bytes <= device.shared_bytes
                assert not launch.is_fused
                # Few differences between architectures: one has several, others one each.
                is_one = architecture == 90 and (sweeps, has_rhs) in {(1, True), (16, False)}
                is_any = dtype == "f4" and (sweeps, has_rhs) == (2, False)
                if (is_one or is_any) and partition.layout.is_single_strip == has_rhs:
                    compile_text(launch.text, architecture)
