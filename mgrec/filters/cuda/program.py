"""Programs of filters: printed for the shape of a filter, never for its coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.tracing.cpp import ctype

# From so many columns on neighbouring lanes read neighbouring columns; fewer are staged.
WIDE = 16
# Threads that fold the segments of one row, by whether many states fit their registers.
FOLDERS, FOLDERS_OF_MANY = 1024, 256

_TOP_BITS = {"f": (127 + 120) << 23, "d": (1023 + 1000) << 20}
_WALK = """
extern "C" __global__ void __launch_bounds__(32) filter_kernel(
    const Arrays arrays, {coefficients}, const Shape shape) {{
  filter_segments(arrays, {with_}, shape);
}}
"""
_REPAIR = """
extern "C" __global__ void __launch_bounds__({threads}) {name}_kernel(
    const Arrays arrays, {coefficients}, const Shape shape, const Limits limits) {{
  const Repair repair = {{arrays, {with_}, shape, limits}};
  {call};
}}
"""
_PROPAGATE = """
extern "C" __global__ void __launch_bounds__(THREADS) propagate_kernel(
    const Arrays arrays, const S* powers, long long chunk, const Shape shape) {
  propagate(arrays.assumed, arrays.exits, powers, chunk, shape);
}
"""


@dataclass(frozen=True)
class FilterLayout:
    """Constants that a filter's kernels are compiled with.

    Attributes
    ----------
    order, sections : int
    dtype : numpy.dtype
        Of outputs.
    states : numpy.dtype
        float64 or complex128: of states and coefficients.
    inner : int
        Columns, where they are fewer than WIDE; else 0.
    feedback : bool
        Outputs count, not inputs alone.
    items, stages, group : int
        Samples a lane takes at a time, such runs under way, samples unrolled.
    bulk : bool
        Runs of outputs are aligned to 16 bytes.
    inputs : numpy.dtype, optional
        Of inputs, where it is not that of outputs: real, as these are.
    aligned : bool
        Runs of inputs are aligned to 16 bytes.
    runs : int
        Of such narrower inputs so many are asked for together.
    direct : bool
        Sections are walked in direct form I, with b_0 = 1.
    """

    order: int
    sections: int
    dtype: np.dtype[np.generic]
    states: np.dtype[np.generic]
    inner: int
    feedback: bool
    items: int = 32
    stages: int = 3
    group: int = 4
    bulk: bool = False
    inputs: np.dtype[np.generic] | None = None
    aligned: bool = False
    runs: int = 1
    direct: bool = False

    def print(self, write: bool, entered: bool, halves: int = 1, threads: int = 32) -> str:
        """The constants and types of a program."""
        top = _TOP_BITS[np.empty(0, self.dtype).real.dtype.char]
        numbers = {
            "ORDER": self.order, "SECTIONS": self.sections, "INNER": self.inner,
            "ITEMS": self.items, "STAGES": self.stages, "GROUP": self.group, "TOP": top,
            "HALVES": halves, "THREADS": threads, "RUNS": self.runs,
        }  # fmt: skip
        flags = {
            "FEEDBACK": self.feedback, "WRITE": write, "ENTERED": entered, "BULK": self.bulk,
            "ALIGNED": self.aligned, "IN_PLACE": self.inputs is None, "DIRECT": self.direct,
        }  # fmt: skip
        types = {"E": self.dtype, "S": self.states, "X": self.inputs or self.dtype}
        lines = ["\n#define DEVICE __device__"]
        lines += [f"constexpr int {name} = {value};" for name, value in numbers.items()]
        lines += [f"constexpr bool {k} = {str(v).lower()};" for k, v in flags.items()]
        text = (
            "\n".join(lines)
            + "\n"
            + kernel_text("engines/cuda/scalar/numeric", "engines/cuda/scalar/half")
        )
        return text + "".join(f"typedef {ctype(t)} {name};\n" for name, t in types.items())

    @property
    def _with(self) -> dict[str, str]:
        """How the coefficients come: beyond 4 KB no kernel takes them by value."""
        size = 2 * self.sections * (self.order + 1) * self.states.itemsize
        by_value = size <= 3072
        return {
            "coefficients": "const Coefficients with" if by_value else "const Coefficients* with",
            "with_": "with" if by_value else "*with",
        }

    @property
    def is_by_value(self) -> bool:
        """Whether kernels take the coefficients by value."""
        return self._with["with_"] == "with"


@cache
def print_walk(layout: FilterLayout, write: bool, entered: bool) -> str:
    """The program that walks all segments."""
    kernels = kernel_text("filters/cuda/rows" if layout.inner else "filters/cuda/columns")
    return layout.print(write, entered) + kernels + _WALK.format(**layout._with)


@cache
def print_repair(layout: FilterLayout, write: bool, halves: int) -> str:
    """The programs that compare segments, and walk those that do not agree again."""
    text = layout.print(write, False, halves) + kernel_text("filters/cuda/repair")
    own = "blockIdx.x * (long long)blockDim.x + threadIdx.x"
    calls = {"check": (128, f"repair.check({own})"), "repair": (32, "repair_rows(repair)")}
    for name, (threads, call) in calls.items():
        text += _REPAIR.format(name=name, threads=threads, call=call, **layout._with)
    return text


def folders(layout: FilterLayout) -> int:
    """Threads of the propagation's blocks."""
    parts = layout.states.itemsize // 8 * layout.order * layout.sections
    return FOLDERS if parts <= 8 else FOLDERS_OF_MANY


@cache
def print_propagation(layout: FilterLayout) -> str:
    """The program that finds what every segment begins with."""
    text = layout.print(False, False, threads=folders(layout)) + kernel_text(
        "filters/cuda/propagate"
    )
    return text + _PROPAGATE
