"""Every kernel of tridiagonal systems compiles for every architecture, without a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import test_cuda_compilation as kernels

from mgrec.engines.cuda.device import Device
from mgrec.tridiagonal.cuda.nopivot import cyclic_reduction, pcr_all, pcr_none, pcr_part, thomas
from mgrec.tridiagonal.cuda.partitions import interface_bytes, plan_partitions
from mgrec.tridiagonal.cuda.window import windows_of


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_kernels_compile_and_fit(compile_text: Any, dtype: str, architecture: int) -> None:
    device = Device(architecture, 100, kernels.SHARED_BYTES[architecture])
    texts = {}
    for shape, is_aligned in [((1, 4096, 1), True), ((3, 4095, 1), True), ((2, 500, 30), False)]:
        plan = plan_partitions(shape, np.dtype(dtype), is_aligned, device)
        top = len(plan.parts) - 1
        for launch in [*plan.reduce(top), plan.solve(top), *plan.substitute(top)]:
            texts[launch.text] = launch
            assert launch.shared_bytes <= device.shared_bytes
    for shape in [(10**4, 64, 1), (1, 4000, 1), (1, 10**7, 1), (1, 10**5, 50)]:
        tries = windows_of(shape, np.dtype(dtype), device)
        assert tries or architecture == 75
        for windows in tries:
            assert windows.all_bytes <= device.shared_bytes
            if architecture == 90:  # a kernel of few differences between architectures
                texts[windows.launch(device).text] = windows.launch(device)
    assert interface_bytes(np.dtype(dtype)) <= min(kernels.SHARED_BYTES.values())
    # Aligned rows, others, columns, and the interface's; complex128 is always aligned.
    assert len(texts) >= (3 if dtype == "c16" else 4)
    for text in texts:
        compile_text(text, architecture)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_kernels_without_pivoting_compile_and_fit(
    compile_text: Any, dtype: str, architecture: int
) -> None:
    device = Device(architecture, 100, kernels.SHARED_BYTES[architecture])
    texts = set()
    for shape in [(10, 64, 1), (10, 4095, 1), (1, 10**7, 1), (1, 500, 30)]:
        for build in (thomas, cyclic_reduction, pcr_all, pcr_part, pcr_none):
            plan = build(shape, np.dtype(dtype), device)
            for launch in plan.launches if plan else ():
                texts.add(launch.text)
                assert launch.shared_bytes <= device.shared_bytes
    assert len(texts) == 3  # systems and columns, reduction
    for text in texts:
        if architecture == 90 or "copy_word" in text:  # others are the same everywhere
            compile_text(text, architecture)
