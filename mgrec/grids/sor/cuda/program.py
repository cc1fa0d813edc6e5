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
from .layout import Cut, RelaxationLayout, Shape, cut_of

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
    """The program for a layout, of so many blocks a multiprocessor."""
    text = "\n#define DEVICE __device__\n" + layout.print()
    text += f"typedef {ctype(layout.dtype)} T;\n" + kernel_text("grids/sor/cuda/relaxation")
    parameters, words = ", Unit* descriptors, unsigned epoch", "descriptors, epoch"
    if layout.alone:
        parameters, words = "", "nullptr, 0"
    return text + _KERNEL.format(
        threads=layout.threads, blocks=blocks, parameters=parameters, words=words
    )


def launch_of(cut: Cut, device: Device) -> Launch:
    """The launch over grids; its slot 0 is the struct that the kernel takes by value."""
    layout = cut.layout
    return Launch(
        print_relaxation(layout, layout.blocks(device)), "relaxation_kernel", cut.blocks(device),
        layout.threads, (GRIDS,) if layout.alone else (GRIDS, SPACE, EPOCH),
        layout.shared_bytes, is_cooperative=not layout.alone, is_fused=False,
    )  # fmt: skip


@lru_cache(maxsize=1024)
def prepared_of(
    shape: Shape, dtype: np.dtype[Any], sweeps: int, has_rhs: bool, is_checked: bool, number: int
) -> tuple[Cut, RunLaunches]:
    """How grids of a kind are cut up, and what launches sweeps over them on a device."""
    device = Device.current()
    cut = cut_of(shape, dtype, sweeps, has_rhs, is_checked, device)
    words = cut.slots(device) * cut.edge_words
    reserve: Callable[[], Any] = partial(reserve_descriptors, words) if words else tuple
    return cut, PreparedLaunches(launch_of(cut, device), reserve=reserve)
