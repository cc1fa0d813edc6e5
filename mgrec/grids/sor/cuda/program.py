"""The program and the launch of a relaxation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np

from ....engines.cuda.compilation import kernel_text
from ....engines.cuda.device import Device, reserve_descriptors
from ....engines.cuda.launches import EPOCH, SPACE, Launch, PreparedLaunches, RunLaunches, Slot
from ....engines.cuda.tracing.cpp import ctype
from .layout import Partition, RelaxationLayout, Shape, choose_partition

GRIDS = Slot(0, (14,), np.dtype(np.int64), None)
"""The kernel's struct: five addresses, two weights, and seven sizes."""
_KERNEL = """
extern "C" __global__ void __launch_bounds__({threads}, {blocks}) relaxation_kernel(
    const Grids grids{parameters}) {{
  relax(grids, {words});
}}
"""


@cache
def print_relaxation(layout: RelaxationLayout, blocks: int) -> str:
    """Return the program for a layout, with so many blocks a multiprocessor."""
    text = "\n#define DEVICE __device__\n" + layout.print()
    text += f"typedef {ctype(layout.dtype)} T;\n" + kernel_text("grids/sor/cuda/relaxation")
    parameters, words = ", Unit* descriptors, unsigned epoch", "descriptors, epoch"
    if layout.is_single_strip:
        parameters, words = "", "nullptr, 0"
    return text + _KERNEL.format(
        threads=layout.threads, blocks=blocks, parameters=parameters, words=words
    )


def build_launch(partition: Partition, device: Device) -> Launch:
    """Return the launch over grids; its slot 0 is the struct that the kernel takes by value."""
    layout = partition.layout
    return Launch(
        print_relaxation(layout, layout.blocks(device)), "relaxation_kernel",
        partition.blocks(device), layout.threads,
        (GRIDS,) if layout.is_single_strip else (GRIDS, SPACE, EPOCH),
        layout.shared_bytes, is_cooperative=not layout.is_single_strip, is_fused=False,
    )  # fmt: skip


@lru_cache(maxsize=1024)
def prepare_launch(
    shape: Shape, dtype: np.dtype[Any], sweeps: int, has_rhs: bool, is_checked: bool, device_id: int
) -> tuple[Partition, RunLaunches]:
    """Return how grids are divided into strips, and the launch of sweeps on a device."""
    device = Device.current()
    partition = choose_partition(shape, dtype, sweeps, has_rhs, is_checked, device)
    words = partition.slots(device) * partition.edge_words
    reserve: Callable[[], Any] = partial(reserve_descriptors, words) if words else tuple
    return partition, PreparedLaunches(build_launch(partition, device), reserve=reserve)
