"""The program and the launch of summed-area tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np

from ..device.compilation import Device, descriptors
from ..device.launches import EPOCH, SPACE, Launch, Prepared, Run, Slot
from ..trace.cpp_names import ctype
from ..transfer.program import kernel_text
from .layout import Cut, Shape, TableLayout, cut_of

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
    text = "\n#define DEVICE __device__\n" + kernel_text("scalar/numeric") + layout.print()
    text += f"typedef {ctype(layout.x_dtype)} X;\ntypedef {ctype(layout.dtype)} T;\n"
    text += kernel_text("wavefront/table")
    return text + _KERNEL.format(blocks=layout.blocks, **_CALLS[layout.alone])


def launch_of(cut: Cut, device: Device) -> Launch:
    """The launch over images; its slot 0 is the struct that the kernel takes by value."""
    layout = cut.layout
    arguments = (Slot(0),) if layout.alone else (Slot(0), SPACE, EPOCH)
    return Launch(
        print_table(layout), "table_kernel", cut.blocks(device), layout.threads, arguments,
        layout.stages * layout.tile_bytes, is_cooperative=not layout.alone,
    )  # fmt: skip


@lru_cache(maxsize=1024)
def prepared_of(
    shape: Shape, x_dtype: np.dtype[Any], dtype: np.dtype[Any], aligned: bool, number: int
) -> tuple[Cut, Run]:
    """How images of a kind are cut up, and what launches their tables on a device."""
    device = Device.current()
    cut = cut_of(shape, x_dtype, dtype, aligned, device)
    reserve: Callable[[], Any] = partial(descriptors, cut.words) if cut.words else tuple
    return cut, Prepared(launch_of(cut, device), reserve=reserve)
