"""The program and the launch of summed-area tables."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np

from ....engines.cuda.compilation import kernel_text
from ....engines.cuda.device import Device
from ....engines.cuda.launches import EPOCH, SPACE, Launch, PreparedLaunches, Slot
from ....engines.cuda.tracing.cpp import ctype
from .layout import Partition, Shape, TableLayout, choose_partition

IMAGES = Slot(0, (15,), np.dtype(np.int64), None)
"""The struct that the kernel takes by value."""
_KERNEL = """
extern "C" __global__ void __launch_bounds__(THREADS, {blocks}) table_kernel(
    const Images images{parameters}) {{
  {call};
}}
"""
_CALLS = {
    True: {"parameters": "", "call": "add_up_alone(images)"},
    False: {
        "parameters": ", Unit* descriptors, unsigned epoch",
        "call": "add_up(images, descriptors, epoch)",
    },
}


@cache
def print_table(layout: TableLayout) -> str:
    """Return the program for a layout."""
    text = (
        "\n#define DEVICE __device__\n"
        + kernel_text("engines/cuda/scalar/numeric")
        + layout.print()
    )
    text += f"typedef {ctype(layout.x_dtype)} X;\ntypedef {ctype(layout.dtype)} T;\n"
    text += kernel_text("grids/table/cuda/table")
    return text + _KERNEL.format(blocks=layout.blocks, **_CALLS[layout.is_single_strip])


def build_launch(partition: Partition, device: Device) -> Launch:
    """Return the launch over images."""
    layout = partition.layout
    arguments = (IMAGES,) if layout.is_single_strip else (IMAGES, SPACE, EPOCH)
    return Launch(
        print_table(layout), "table_kernel", partition.blocks(device), layout.threads, arguments,
        layout.shared_bytes, is_cooperative=not layout.is_single_strip,
    )  # fmt: skip


@lru_cache(maxsize=1024)
def prepare_launch(
    shape: Shape,
    x_dtype: np.dtype[Any],
    dtype: np.dtype[Any],
    is_aligned: bool,
    is_packed: bool,
    device_id: int,
) -> tuple[Partition, PreparedLaunches]:
    """Return how images are divided into strips, and the launch of their tables on a device."""
    device = Device.current()
    partition = choose_partition(shape, x_dtype, dtype, is_aligned, device, is_packed)
    return partition, PreparedLaunches(build_launch(partition, device), units=partition.words)
