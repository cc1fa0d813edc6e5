"""The layouts of CUDA kernels: the same tiles on every GPU, and little memory beside the arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cuda_cases import chunk_of

from mgrec.engines.cuda.device import Device
from mgrec.engines.cuda.launches import Launch
from mgrec.engines.cuda.tracing.functions import state_count
from mgrec.scans.cuda.determine import launch_single_pass, launch_walk
from mgrec.scans.cuda.layouts import choose_layout, choose_precompute
from mgrec.scans.cuda.program import Layout
from mgrec.scans.cuda.sources import describe

H100 = Device(90, 132, 227 * 1024)
DEVICES = [
    H100, Device(90, 114, 227 * 1024), Device(100, 148, 227 * 1024), Device(80, 108, 163 * 1024),
    Device(86, 84, 99 * 1024), Device(120, 170, 99 * 1024), Device(75, 40, 64 * 1024),
]  # fmt: skip
NAMES = ["affine", "constant", "computed", "matrix2"]
SHAPES = [
    (1, 1000, 1), (1, 2**28, 1), (2048, 32768, 1), (10**6, 64, 1), (10**4, 10**4, 1),
    (1, 32768, 2048), (1, 10**6, 64), (1, 131072, 512), (3, 700, 33), (1, 64, 10**6),
]  # fmt: skip


def chosen(name: str, dtype: str, shape: Any, device: Device) -> tuple[Any, Any, Layout]:
    transfer_map, chunk = chunk_of(name, dtype, shape, reverse=False)
    states, width = state_count(transfer_map), len(transfer_map.identity)
    return transfer_map, chunk, choose_layout(chunk, describe(chunk), width, states, device)


def launch_of(transfer_map: Any, chunk: Any, layout: Layout, device: Device) -> tuple[Launch, int]:
    arrays = [(None,) * state_count(transfer_map)] * 2
    given = (transfer_map, chunk, describe(chunk), layout, *arrays, device.multiprocessors)
    return (launch_walk(*given), 0) if layout.walking else launch_single_pass(*given)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "complex128"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_order_of_arithmetic_is_that_of_any_gpu(name: str, dtype: str, shape: Any) -> None:
    for choose in (choose_layout, choose_precompute):
        transfer_map, chunk = chunk_of(name, dtype, shape, reverse=False)
        states, width = state_count(transfer_map), len(transfer_map.identity)
        layouts = [choose(chunk, describe(chunk), width, states, device) for device in DEVICES]
        assert len({(x.walking, x.threads, x.crowded, x.segmented) for x in layouts}) == 1
        # Walking is the plain loop, however long its pieces are.
        assert layouts[0].walking or len({x.items for x in layouts}) == 1


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: str(device.capability))
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "complex128"])
def test_blocks_fit_into_shared_memory(name: str, dtype: str, device: Device) -> None:
    for shape in SHAPES:
        transfer_map, chunk, layout = chosen(name, dtype, shape, device)
        launch, _ = launch_of(transfer_map, chunk, layout, device)
        assert launch.shared_bytes <= device.shared_bytes, (shape, layout)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_memory_beside_the_arrays_is_a_hundredth_of_the_result(name: str, dtype: str) -> None:
    for shape in SHAPES:
        transfer_map, chunk, layout = chosen(name, dtype, shape, H100)
        if layout.walking:
            continue
        states = state_count(transfer_map)
        layout = replace(layout, guarded=name != "matrix2")
        _, units = launch_of(transfer_map, chunk, layout, H100)
        result = states * np.prod(shape, dtype=float) * chunk.dtype.itemsize
        # A ring of eight turns for each block, however large the result.
        assert units * 8 <= 0.01 * result + 8 * 132 * 32 * 128
