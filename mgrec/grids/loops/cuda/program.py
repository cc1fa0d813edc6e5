"""The programs and the launches of wavefront loops."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ....core.algebra.fingerprint import StepFunction
from ....core.algebra.operators import Operators
from ....engines.cuda.compilation import kernel_text
from ....engines.cuda.device import Device
from ....engines.cuda.launches import EPOCH, SPACE, Launch, PreparedLaunches, Slot
from ....engines.cuda.tracing.cpp import ctype
from ....engines.cuda.tracing.functions import trace_operator
from .choice import choose_partition
from .layout import Layout, Partition, Shape, Signature

GRIDS = Slot(0, (36,), np.dtype(np.int64), None)
"""The struct that the kernel takes by value."""
_KERNEL = """
extern "C" __global__ void __launch_bounds__(THREADS_OF_BLOCK, {blocks}) loop_kernel(
    const Grids grids, Unit* descriptors, unsigned epoch) {{
  run_{strategy}(grids, descriptors, epoch);
}}
"""
# The smallest normal number, and 32 times its rounding.
_LIMITS = {4: ("0x1p-126", "0x1p-19"), 8: ("0x1p-1022", "0x1p-48")}
_NAMES = {"+": "np_add", "*": "np_multiply", "max": "np_maximum", "min": "np_minimum"}


def print_operators(operators: Operators, dtype: np.dtype[Any]) -> str:
    """Return ◇ and ∘ as C++ functions of two numbers."""
    pair = {"accumulate": operators.accumulate, "distribute": operators.distribute}
    return "".join(_print_operator(name, operator, dtype) for name, operator in pair.items())


def _print_operator(name: str, operator: str | StepFunction, dtype: np.dtype[Any]) -> str:
    if isinstance(operator, StepFunction):
        return trace_operator(operator, name, dtype)
    return f"DEVICE inline T {name}(T a, T b) {{ return {_NAMES[operator]}(a, b); }}\n"


def _print_signature(signature: Signature) -> str:
    kinds = " : ".join(f"o == {o} ? {int(v)}" for o, v in enumerate(signature.variations))
    flags = {
        "ALIGNED": signature.is_aligned,
        "FLOORED": signature.is_floored,
        "TURNED": signature.is_transposed,
    }
    lines = [f"constexpr bool {name} = {str(value).lower()};" for name, value in flags.items()]
    lines.append(f"DEVICE constexpr int kind_of(int o) {{ return {kinds} : 0; }}")
    return "\n".join(lines) + f"\ntypedef {ctype(signature.dtype)} T;\n"


def _print_checks(signature: Signature) -> str:
    """Return the flags of the errors of a scan that compensation.cuh corrects.

    Sums and products modulo 2**bits are exact in any order. Products of weights lose digits
    below the smallest normal number, and nothing is known about functions of the user.
    """
    operators, is_custom = signature.operators, bool(signature.operators.functions)
    flags = {
        "SAME": operators.accumulate == operators.distribute,
        "CHECKED": signature.dtype.kind == "f" or is_custom or operators.accumulate != "+",
        "LOSES": operators.distribute == "*" or is_custom,
        "ALWAYS_LOSES": is_custom,
    }
    text = "".join(f"constexpr bool {k} = {str(v).lower()};\n" for k, v in flags.items())
    smallest, tolerance = _LIMITS[signature.dtype.itemsize]
    return text + f"constexpr double SMALLEST = {smallest}, TOLERANCE = {tolerance};\n"


def print_loop(layout: Layout) -> str:
    """Return the program for a layout."""
    signature, strategy = layout.signature, layout.strategy
    constants = layout.constants | {"THREADS_OF_BLOCK": layout.threads}
    text = (
        "\n#define DEVICE __device__\n"
        + kernel_text("engines/cuda/scalar/numeric")
        + _print_signature(signature)
    )
    text += "".join(f"constexpr int {name} = {value};\n" for name, value in constants.items())
    text += print_operators(signature.operators, signature.dtype)
    if strategy == "compensation":
        text += _print_checks(signature)
    text += kernel_text(f"grids/loops/cuda/{strategy}")
    return text + _KERNEL.format(blocks=layout.most_blocks, strategy=strategy)


def build_launch(partition: Partition, device: Device) -> Launch:
    """Return the launch over grids.

    Products are rounded before they are added, as in the plain loop.
    """
    layout = partition.layout
    return Launch(
        print_loop(layout), "loop_kernel", partition.blocks(device), layout.threads,
        (GRIDS, SPACE, EPOCH), partition.shared_bytes, is_cooperative=True, is_fused=False,
    )  # fmt: skip


@lru_cache(maxsize=1024)
def prepare_launch(
    strategy: str, signature: Signature, shape: Shape, device_id: int
) -> tuple[Partition, PreparedLaunches]:
    """Return how grids are divided into strips, and the launch of their loop on a device."""
    device = Device.current()
    partition = choose_partition(strategy, signature, shape, device)
    return partition, PreparedLaunches(build_launch(partition, device), units=partition.words)
