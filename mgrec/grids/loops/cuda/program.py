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
from .choice import cut_of
from .layout import Cut, Kind, Layout, Shape

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
    """◇ and ∘ as C++ functions of two numbers."""
    pair = {"accumulate": operators.accumulate, "distribute": operators.distribute}
    return "".join(_print_operator(name, each, dtype) for name, each in pair.items())


def _print_operator(name: str, operator: str | StepFunction, dtype: np.dtype[Any]) -> str:
    if isinstance(operator, StepFunction):
        return trace_operator(operator, name, dtype)
    return f"DEVICE inline T {name}(T a, T b) {{ return {_NAMES[operator]}(a, b); }}\n"


def _print_kind(kind: Kind) -> str:
    kinds = " : ".join(f"o == {o} ? {int(each)}" for o, each in enumerate(kind.along))
    flags = {"ALIGNED": kind.is_aligned, "FLOORED": kind.is_floored, "TURNED": kind.is_turned}
    lines = [f"constexpr bool {name} = {str(value).lower()};" for name, value in flags.items()]
    lines.append(f"DEVICE constexpr int kind_of(int o) {{ return {kinds} : 0; }}")
    return "\n".join(lines) + f"\ntypedef {ctype(kind.dtype)} T;\n"


def _print_trust(kind: Kind) -> str:
    """What a scan may get wrong: see compensation.cuh.

    Sums and products modulo 2**bits are exact in any order. Products of weights lose digits
    below the smallest normal number, and nothing is known of functions of the user.
    """
    operators, is_own = kind.operators, bool(kind.operators.functions)
    flags = {
        "SAME": operators.accumulate == operators.distribute,
        "CHECKED": kind.dtype.kind == "f" or is_own or operators.accumulate != "+",
        "LOSES": operators.distribute == "*" or is_own,
        "ALWAYS_LOSES": is_own,
    }
    text = "".join(f"constexpr bool {k} = {str(v).lower()};\n" for k, v in flags.items())
    smallest, tolerance = _LIMITS[kind.dtype.itemsize]
    return text + f"constexpr double SMALLEST = {smallest}, TOLERANCE = {tolerance};\n"


def print_loop(layout: Layout) -> str:
    """The program for a layout."""
    kind, strategy = layout.kind, layout.strategy
    numbers = layout.numbers | {"THREADS_OF_BLOCK": layout.threads}
    text = (
        "\n#define DEVICE __device__\n"
        + kernel_text("engines/cuda/scalar/numeric")
        + _print_kind(kind)
    )
    text += "".join(f"constexpr int {name} = {value};\n" for name, value in numbers.items())
    text += print_operators(kind.operators, kind.dtype)
    if strategy == "compensation":
        text += _print_trust(kind)
    text += kernel_text(f"grids/loops/cuda/{strategy}")
    return text + _KERNEL.format(blocks=layout.most_blocks, strategy=strategy)


def launch_of(cut: Cut, device: Device) -> Launch:
    """The launch over grids.

    Products are rounded before they are added, as in the plain loop.
    """
    return Launch(
        print_loop(cut.layout), "loop_kernel", cut.blocks(device), cut.layout.threads,
        (GRIDS, SPACE, EPOCH), cut.shared_bytes, is_cooperative=True, is_fused=False,
    )  # fmt: skip


@lru_cache(maxsize=1024)
def prepared_of(
    strategy: str, kind: Kind, shape: Shape, number: int
) -> tuple[Cut, PreparedLaunches]:
    """How grids of a kind are cut up, and what launches their loop on a device."""
    device = Device.current()
    cut = cut_of(strategy, kind, shape, device)
    return cut, PreparedLaunches(launch_of(cut, device), units=cut.words)
