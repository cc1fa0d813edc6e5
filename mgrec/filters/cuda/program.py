"""The programs of filters, which depend on the shape of a filter but not on its coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.cpp import print_definitions

# From WIDE columns on, neighbouring lanes read neighbouring columns. Fewer columns are copied
# through shared memory.
WIDE = 16
# Threads that propagate the states of one row: for few states, and for more, whose registers do not
# suffice for as many threads.
THREADS, THREADS_OF_MANY = 1024, 256

_TOP_BITS = {"f": (127 + 120) << 23, "d": (1023 + 1000) << 20}
_WALK = """
extern "C" __global__ void __launch_bounds__(32) filter_kernel(
    const Arrays arrays, {coefficients}, const Shape shape) {{
  filter_segments(arrays, {value}, shape);
}}
"""
_REPAIR = """
extern "C" __global__ void __launch_bounds__({threads}) {name}_kernel(
    const Arrays arrays, {coefficients}, const Shape shape, const Limits limits) {{
  const Repair repair = {{arrays, {value}, shape, limits}};
  {call};
}}
"""
_PROPAGATE = """
extern "C" __global__ void __launch_bounds__(THREADS) propagate_kernel(
    const Arrays arrays, const S* powers, long long chunk, const Shape shape) {{
  {call};
}}
"""
_PROPAGATIONS = {
    False: "propagate(arrays.assumed, arrays.exits, powers, chunk, shape)",
    True: "propagate_in_order(arrays.assumed, arrays.exits, powers, shape)",
}


@dataclass(frozen=True)
class FilterLayout:
    """The constants with which the kernels of a filter are compiled."""

    order: int
    sections: int
    dtype: np.dtype[np.generic]  # of the outputs
    states: np.dtype[np.generic]  # and of coefficients: float64 or complex128
    inner: int  # number of columns if below WIDE, otherwise 0
    feedback: bool  # whether outputs depend on previous outputs
    items: int = 32  # samples that a lane copies at a time
    stages: int = 3  # such batches under way
    group: int = 4  # samples unrolled
    bulk: bool = False  # whether batches of outputs are aligned to 16 bytes
    # Dtype of the inputs if it differs from that of the outputs. Both are then real.
    inputs: np.dtype[np.generic] | None = None
    aligned: bool = False  # whether batches of inputs are aligned to 16 bytes
    runs: int = 1  # number of batches of such inputs that are copied together
    direct: bool = False  # whether sections are computed in direct form I, with b_0 = 1
    # Dtype in which outputs are stored; None for their own.
    results: np.dtype[np.generic] | None = None
    backward: bool = False  # whether rows are filtered from their last sample to the first
    has_pieces: bool = False  # whether x is a table of arrays, one after the other along the steps

    def print(self, write: bool, has_states: bool, halves: int = 1, threads: int = 32) -> str:
        """Return the constants, the types and the numeric functions of a program."""
        top = _TOP_BITS[np.empty(0, self.dtype).real.dtype.char]
        numbers = {
            "ORDER": self.order, "SECTIONS": self.sections, "INNER": self.inner,
            "ITEMS": self.items, "STAGES": self.stages, "GROUP": self.group, "TOP": top,
            "HALVES": halves, "THREADS": threads, "RUNS": self.runs,
        }  # fmt: skip
        flags = {
            "FEEDBACK": self.feedback, "WRITE": write, "ENTERED": has_states, "BULK": self.bulk,
            "ALIGNED": self.aligned, "IN_PLACE": self.inputs is None, "DIRECT": self.direct,
            "BACKWARD": self.backward, "PIECES": self.has_pieces,
        }  # fmt: skip
        types = {"E": self.dtype, "S": self.states, "X": self.inputs or self.dtype}
        types["Y"] = self.results or self.dtype
        numeric = kernel_text("engines/cuda/scalar/numeric", "engines/cuda/scalar/half")
        return print_definitions(numeric, numbers | flags, **types)

    @property
    def is_by_value(self) -> bool:
        """Whether kernels take the coefficients by value: arguments are limited to 4 KB."""
        return 2 * self.sections * (self.order + 1) * self.states.itemsize <= 3072

    @property
    def _coefficients(self) -> dict[str, str]:
        """The declaration of the coefficients, and the expression for their value."""
        if self.is_by_value:
            return {"coefficients": "const Coefficients with", "value": "with"}
        return {"coefficients": "const Coefficients* with", "value": "*with"}


@cache
def print_walk(layout: FilterLayout, write: bool, has_states: bool) -> str:
    """Return the program that filters all segments, from propagated states if `has_states`."""
    kernels = kernel_text("filters/cuda/rows" if layout.inner else "filters/cuda/columns")
    return layout.print(write, has_states) + kernels + _WALK.format(**layout._coefficients)


@cache
def print_repair(layout: FilterLayout, write: bool, halves: int) -> str:
    """Return the kernels that compare the states of segments, and filter wrong segments again."""
    text = layout.print(write, False, halves) + kernel_text("filters/cuda/repair")
    thread = "blockIdx.x * (long long)blockDim.x + threadIdx.x"
    calls = {"check": (128, f"repair.check({thread})"), "repair": (32, "repair_rows(repair)")}
    for name, (threads, call) in calls.items():
        text += _REPAIR.format(name=name, threads=threads, call=call, **layout._coefficients)
    return text


def propagation_threads(layout: FilterLayout) -> int:
    """Return the number of threads in a block of the propagation kernel."""
    numbers = layout.states.itemsize // 8 * layout.order * layout.sections
    return THREADS if numbers <= 8 else THREADS_OF_MANY


@cache
def print_propagation(layout: FilterLayout, in_order: bool) -> str:
    """Return the program that computes the states before each segment."""
    threads = 32 if in_order else propagation_threads(layout)
    constants = layout.print(False, False, threads=threads)
    kernel = _PROPAGATE.format(call=_PROPAGATIONS[in_order])
    return constants + kernel_text("filters/cuda/propagate") + kernel
