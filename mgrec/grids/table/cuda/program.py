"""The program and the launch of summed-area tables."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ....engines.cuda.compilation import kernel_text
from ....engines.cuda.cpp import print_definitions
from ....engines.cuda.device import Device
from ....engines.cuda.launches import Launch, PreparedLaunches
from ...cuda.strips import Shape
from .layout import Partition, choose_partition


def build_launch(partition: Partition, device: Device) -> Launch:
    """Return the launch over images."""
    layout = partition.layout
    constants = {
        "THREADS": layout.threads, "LANES": layout.lanes, "V": layout.vector,
        "ITEMS": layout.items, "STAGES": layout.stages, "GROUP": layout.group,
        "DOWN": layout.goes_down, "ALONE": layout.is_single_strip, "ALIGNED": layout.is_aligned,
        "IN_WORDS": layout.reads_words, "PACKED": layout.is_packed,
    }  # fmt: skip
    numeric = kernel_text("engines/cuda/scalar/numeric")
    text = print_definitions(numeric, constants, X=layout.x_dtype, T=layout.dtype)
    text += kernel_text("grids/table/cuda/table")
    function = "add_up_alone" if layout.is_single_strip else "add_up"
    return partition.launch(
        device, text, "table_kernel", function, layout.blocks, 15, struct="Images", is_fused=True
    )


@lru_cache(maxsize=1024)
def prepare_launch(
    shape: Shape, x_dtype: np.dtype[Any], dtype: np.dtype[Any], is_aligned: bool, is_packed: bool,
    device_id: int
) -> tuple[Partition, PreparedLaunches]:  # fmt: skip
    """Return how images are divided into strips, and the launch of their tables on a device."""
    device = Device.current()
    partition = choose_partition(shape, x_dtype, dtype, is_aligned, device, is_packed)
    return partition, PreparedLaunches(build_launch(partition, device), units=partition.words)
