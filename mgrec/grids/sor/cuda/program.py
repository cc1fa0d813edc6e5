"""The program and the launch of a relaxation."""

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
    """Return the launch over grids; its struct has five addresses, two weights, and seven sizes."""
    layout = partition.layout
    constants = {
        "STEPS": layout.steps, "SWEEPS": layout.sweeps, "GROUPS": layout.groups,
        "WARPS": layout.warps, "THREADS": layout.threads, "SHARED_BYTES": layout.shared_bytes,
        "STAGES": 2, "HAS_RHS": layout.has_rhs, "IS_CHECKED": layout.is_checked,
        "ALONE": layout.is_single_strip,
    }  # fmt: skip
    text = print_definitions("", constants, T=layout.dtype)
    text += kernel_text("grids/sor/cuda/relaxation")
    return partition.launch(device, text, "relaxation_kernel", "relax", layout.blocks, words=14)


@lru_cache(maxsize=1024)
def prepare_launch(
    shape: Shape, dtype: np.dtype[Any], sweeps: int, has_rhs: bool, is_checked: bool, device_id: int
) -> tuple[Partition, PreparedLaunches]:
    """Return how grids are divided into strips, and the launch of sweeps on a device."""
    device = Device.current()
    partition = choose_partition(shape, dtype, sweeps, has_rhs, is_checked, device)
    words = partition.slots(device) * partition.edge_words
    return partition, PreparedLaunches(build_launch(partition, device), units=words)
