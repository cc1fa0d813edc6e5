"""The kernels of wavefront loops compile for every architecture, without a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import test_cuda_compilation as kernels

from mgrec.core.algebra.fingerprint import StepFunction
from mgrec.core.algebra.operators import MAX_PLUS, PLUS_PLUS, PLUS_TIMES, Operators
from mgrec.engines.cuda.device import Device
from mgrec.grids.cuda.transposition import print_copy
from mgrec.grids.loops.cuda import choice
from mgrec.grids.loops.cuda.layout import Signature, Variation
from mgrec.grids.loops.cuda.program import build_launch

CONSTANT, ROW, ARRAY = Variation
OWN = Operators(StepFunction(lambda a, b: np.maximum(a, b)), StepFunction(lambda a, b: a + b))
VARIATIONS = [
    (ARRAY, CONSTANT, CONSTANT, CONSTANT), (ARRAY, ROW, ROW, ROW), (ARRAY, ARRAY, ARRAY, ARRAY),
    (CONSTANT, CONSTANT, CONSTANT, ARRAY),
]  # fmt: skip


def partition_for(strategy: str, signature: Signature, architecture: int) -> Any:
    device = Device(architecture, 100, kernels.SHARED_BYTES[architecture])
    return choice.choose_partition(strategy, signature, (1, 2**14, 2**14), device), device


@pytest.mark.parametrize("strategy", ["tiles", "compensation", "hyperplane"])
@pytest.mark.parametrize(
    ("dtype", "architecture"),
    [
        ("f4", 90),
        *(
            pytest.param(dtype, architecture, marks=pytest.mark.extended)
            for dtype in ("f4", "f8", "i4", "i8") for architecture in kernels.ARCHITECTURES
        ),
    ],
)  # fmt: skip
def test_kernels_compile(compile_text: Any, dtype: str, architecture: int, strategy: str) -> None:
    signature = Signature(PLUS_TIMES, np.dtype(dtype), VARIATIONS[0], False, True)
    partition, device = partition_for(strategy, signature, architecture)
    compile_text(build_launch(partition, device).text, architecture)


@pytest.mark.extended
@pytest.mark.parametrize("strategy", ["tiles", "compensation", "hyperplane"])
@pytest.mark.parametrize(
    "variations", VARIATIONS, ids=lambda variations: "-".join(a.name for a in variations)
)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
def test_all_operands_compile(
    compile_text: Any, dtype: str, variations: Any, strategy: str
) -> None:
    for pair, is_floored, is_aligned in (
        (MAX_PLUS, True, True), (PLUS_PLUS, False, False), (OWN, False, True),
    ):  # fmt: skip
        signature = Signature(
            pair, np.dtype(dtype), variations, is_floored, is_aligned, is_transposed=is_floored
        )
        partition, device = partition_for(strategy, signature, 90)
        compile_text(build_launch(partition, device).text, 90)


@pytest.mark.extended
@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_copies_compile(compile_text: Any, size: int) -> None:
    for architecture in kernels.ARCHITECTURES:
        compile_text(print_copy(size), architecture)


@pytest.mark.parametrize("strategy", ["tiles", "compensation", "hyperplane"])
def test_blocks_fit_a_multiprocessor(architecture: int, strategy: str) -> None:
    """As many as are launched at once wait for each other."""
    for dtype in ("f4", "f8"):
        for variations in VARIATIONS:
            signature = Signature(PLUS_TIMES, np.dtype(dtype), variations, False, True)
            partition, device = partition_for(strategy, signature, architecture)
            own = partition.shared_bytes + partition.layout.kernel_bytes + 1024
            assert own * partition.layout.blocks <= device.shared_bytes + 1024
            assert partition.layout.threads * partition.layout.blocks <= 512
            assert partition.blocks(device) <= partition.layout.blocks * device.multiprocessors
