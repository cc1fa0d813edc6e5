"""The program and the launch of summed-area tables."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np

from ....engines.cuda.compilation import kernel_text
from ....engines.cuda.device import Device
from ....engines.cuda.launches import EPOCH, SPACE, Launch, PreparedLaunches, Slot
from ....engines.cuda.tracing.cpp import ctype
from .layout import Cut, Shape, TableLayout, cut_of

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
    """The program for a layout."""
    text = (
        "\n#define DEVICE __device__\n"
        + kernel_text("engines/cuda/scalar/numeric")
        + layout.print()
    )
    text += f"typedef {ctype(layout.x_dtype)} X;\ntypedef {ctype(layout.dtype)} T;\n"
    text += kernel_text("grids/table/cuda/table")
    return text + _KERNEL.format(blocks=layout.blocks, **_CALLS[layout.alone])


def launch_of(cut: Cut, device: Device) -> Launch:
    """The launch over images."""
    layout = cut.layout
    arguments = (IMAGES,) if layout.alone else (IMAGES, SPACE, EPOCH)
    return Launch(
        print_table(layout), "table_kernel", cut.blocks(device), layout.threads, arguments,
        layout.shared_bytes, is_cooperative=not layout.alone,
    )  # fmt: skip


@lru_cache(maxsize=1024)
def prepared_of(
    shape: Shape,
    x_dtype: np.dtype[Any],
    dtype: np.dtype[Any],
    aligned: bool,
    packed: bool,
    number: int,
) -> tuple[Cut, PreparedLaunches]:
    """How images of a kind are cut up, and what launches their tables on a device."""
    device = Device.current()
    cut = cut_of(shape, x_dtype, dtype, aligned, device, packed)
    return cut, PreparedLaunches(launch_of(cut, device), units=cut.words)
