"""The kernels of wavefront loops compile for every architecture, without a GPU."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
import test_cuda_compilation as kernels

from mgrec.core.algebra.fingerprint import StepFunction
from mgrec.core.algebra.operators import MAX_PLUS, PLUS_PLUS, PLUS_TIMES, Operators
from mgrec.engines.cuda.device import Device
from mgrec.grids.cuda.transposition import print_copy
from mgrec.grids.loops.cuda import choice
from mgrec.grids.loops.cuda.layout import Along, Kind
from mgrec.grids.loops.cuda.program import launch_of

nvrtc = kernels.nvrtc

# What a block may ask for, of the shared memory of each architecture.
SHARED_BYTES = {75: 64 * 1024, 80: 163 * 1024, 90: 227 * 1024, 100: 227 * 1024}
CONSTANT, ROW, ARRAY = Along
OWN = Operators(StepFunction(lambda a, b: np.maximum(a, b)), StepFunction(lambda a, b: a + b))
ALONG = [
    (ARRAY, CONSTANT, CONSTANT, CONSTANT), (ARRAY, ROW, ROW, ROW), (ARRAY, ARRAY, ARRAY, ARRAY),
    (CONSTANT, CONSTANT, CONSTANT, ARRAY),
]  # fmt: skip


def cut_for(strategy: str, kind: Kind, architecture: int) -> Any:
    device = Device(architecture, 100, SHARED_BYTES[architecture])
    return choice.cut_of(strategy, kind, (1, 2**14, 2**14), device), device


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
def test_kernels_compile(nvrtc: ctypes.CDLL, dtype: str, architecture: int, strategy: str) -> None:
    kind = Kind(PLUS_TIMES, np.dtype(dtype), ALONG[0], False, True)
    cut, device = cut_for(strategy, kind, architecture)
    kernels.compile_text(nvrtc, launch_of(cut, device).text, architecture)


@pytest.mark.extended
@pytest.mark.parametrize("strategy", ["tiles", "compensation", "hyperplane"])
@pytest.mark.parametrize("along", ALONG, ids=lambda along: "-".join(a.name for a in along))
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
def test_all_operands_compile(nvrtc: ctypes.CDLL, dtype: str, along: Any, strategy: str) -> None:
    for pair, is_floored, is_aligned in (
        (MAX_PLUS, True, True), (PLUS_PLUS, False, False), (OWN, False, True),
    ):  # fmt: skip
        kind = Kind(pair, np.dtype(dtype), along, is_floored, is_aligned, is_turned=is_floored)
        cut, device = cut_for(strategy, kind, 90)
        kernels.compile_text(nvrtc, launch_of(cut, device).text, 90)


@pytest.mark.extended
@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_copies_compile(nvrtc: ctypes.CDLL, size: int) -> None:
    for architecture in kernels.ARCHITECTURES:
        kernels.compile_text(nvrtc, print_copy(size), architecture)


@pytest.mark.parametrize("strategy", ["tiles", "compensation", "hyperplane"])
@pytest.mark.parametrize("architecture", kernels.ARCHITECTURES)
def test_blocks_fit_a_multiprocessor(architecture: int, strategy: str) -> None:
    """As many as are launched at once wait for each other."""
    for dtype in ("f4", "f8"):
        for along in ALONG:
            kind = Kind(PLUS_TIMES, np.dtype(dtype), along, False, True)
            cut, device = cut_for(strategy, kind, architecture)
            own = cut.shared_bytes + cut.layout.kernel_bytes + 1024
            assert own * cut.layout.blocks <= device.shared_bytes + 1024
            assert cut.layout.threads * cut.layout.blocks <= 512
            assert cut.blocks(device) <= cut.layout.blocks * device.multiprocessors
