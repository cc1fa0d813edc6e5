"""The programs and the launches of wavefront loops."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ....core.algebra.fingerprint import StepFunction
from ....engines.cuda.compilation import kernel_text
from ....engines.cuda.cpp import print_definitions
from ....engines.cuda.device import Device
from ....engines.cuda.launches import Launch, PreparedLaunches
from ....engines.cuda.tracing import trace_operator
from ...cuda.strips import Shape
from .choice import choose_partition
from .layout import Layout, Partition, Signature

# The smallest normal number, and 32 times its rounding.
_LIMITS = {4: ("0x1p-126", "0x1p-19"), 8: ("0x1p-1022", "0x1p-48")}
_NAMES = {"+": "np_add", "*": "np_multiply", "max": "np_maximum", "min": "np_minimum"}


def _print_operator(name: str, operator: str | StepFunction, dtype: np.dtype[Any]) -> str:
    """Return ◇ or ∘ as a C++ function of two numbers."""
    if isinstance(operator, StepFunction):
        return trace_operator(operator, name, dtype)
    return f"DEVICE inline T {name}(T a, T b) {{ return {_NAMES[operator]}(a, b); }}\n"


def _flags(signature: Signature) -> dict[str, int]:
    """Return the flags of a signature; the last four are the errors of a scan that are corrected.

    Sums and products modulo 2**bits are exact in any order. Products of weights lose digits
    below the smallest normal number, and nothing is known about functions of the user.
    """
    operators, is_custom = signature.operators, bool(signature.operators.functions)
    return {
        "ALIGNED": signature.is_aligned,
        "FLOORED": signature.is_floored,
        "TURNED": signature.is_transposed,
        "SAME": operators.accumulate == operators.distribute,
        "CHECKED": signature.dtype.kind == "f" or is_custom or operators.accumulate != "+",
        "LOSES": operators.distribute == "*" or is_custom,
        "ALWAYS_LOSES": is_custom,
    }


def _print_loop(layout: Layout) -> str:
    signature = layout.signature
    operators, dtype = signature.operators, signature.dtype
    kinds = " : ".join(f"o == {o} ? {int(v)}" for o, v in enumerate(signature.variations))
    smallest, tolerance = _LIMITS[dtype.itemsize]
    numeric = kernel_text("engines/cuda/scalar/numeric")
    text = print_definitions(numeric, _flags(signature) | layout.constants, T=dtype)
    text += f"constexpr double SMALLEST = {smallest}, TOLERANCE = {tolerance};\n"
    text += f"DEVICE constexpr int kind_of(int o) {{ return {kinds} : 0; }}\n"
    text += _print_operator("accumulate", operators.accumulate, dtype)
    text += _print_operator("distribute", operators.distribute, dtype)
    return text + kernel_text(f"grids/loops/cuda/{layout.strategy}")


def build_launch(partition: Partition, device: Device) -> Launch:
    """Return the launch over grids.

    Products are rounded before they are added, as in the plain loop.
    """
    layout = partition.layout
    text, function = _print_loop(layout), f"run_{layout.strategy}"
    return partition.launch(device, text, "loop_kernel", function, layout.most_blocks, words=36)


@lru_cache(maxsize=1024)
def prepare_launch(
    strategy: str, signature: Signature, shape: Shape, device_id: int
) -> tuple[Partition, PreparedLaunches]:
    """Return how grids are divided into strips, and the launch of their loop on a device."""
    device = Device.current()
    partition = choose_partition(strategy, signature, shape, device)
    return partition, PreparedLaunches(build_launch(partition, device), units=partition.words)
