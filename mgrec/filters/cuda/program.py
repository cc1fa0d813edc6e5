"""The programs of filters, and the coefficients and powers of A that their kernels take.

A program depends on the shape of a filter but not on its coefficients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.cpp import print_definitions
from ..cascade import Cascade

# From WIDE columns on, neighbouring lanes read neighbouring columns. Fewer columns are copied
# through shared memory.
WIDE = 16
# Threads that propagate the states of one row: for few states, and for more, whose registers do not
# suffice for as many threads.
THREADS, THREADS_OF_MANY = 1024, 256
# Powers with which the segments of a row are joined: 1, and those of the lanes of a warp and of the
# warps of a block.
POWERS = 11

_TOP_BITS = {"f": (127 + 120) << 23, "d": (1023 + 1000) << 20}
_PROPAGATE = """
extern "C" __global__ void __launch_bounds__(THREADS) propagate_kernel(
    const Arrays arrays, const S* powers, long long chunk, const Shape shape) {{
  {call};
}}
"""
_PROPAGATIONS = {
    False: "propagate(arrays.assumed, arrays.carry_outs, powers, chunk, shape)",
    True: "propagate_in_order(arrays.assumed, arrays.carry_outs, powers, shape)",
}


def weight_of(states: int, dtype: np.dtype[Any]) -> int:
    """Return how much `states` states of a dtype cost: a complex one counts as four."""
    return states * (4 if dtype.kind == "c" else 1)


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
    aligned_results: bool = False  # whether batches of outputs are aligned to 16 bytes
    # Dtype of the inputs if it differs from that of the outputs. Both are then real.
    inputs: np.dtype[np.generic] | None = None
    aligned: bool = False  # whether batches of inputs are aligned to 16 bytes
    # Whether the copy engine copies batches of inputs, and of outputs.
    bulk_inputs: bool = False
    bulk_results: bool = False
    batches: int = 1  # number of batches of such inputs that are copied together
    direct: bool = False  # whether sections are computed in direct form I, with b_0 = 1
    # Dtype in which outputs are stored; None for their own.
    results: np.dtype[np.generic] | None = None
    backward: bool = False  # whether rows are filtered from their last sample to the first
    pieces: bool = False  # whether x is a table of arrays, one after the other along the steps

    @property
    def weight(self) -> int:
        """Number of states, of which a complex one counts as four."""
        return weight_of(self.order * self.sections, self.states)

    def print(self, write: bool, has_states: bool, halves: int = 1, threads: int = 32) -> str:
        """Return the constants, the types and the numeric functions of a program."""
        # Numbers and flags of the layout are constants of the same names.
        constants = {name.upper(): value for name, value in vars(self).items() if isinstance(value, int)}
        constants |= {"HALVES": halves, "THREADS": threads, "WRITE": write, "HAS_STATES": has_states}
        constants["TOP"] = _TOP_BITS[np.empty(0, self.dtype).real.dtype.char]
        constants |= {"IN_PLACE": self.inputs is None, "BY_VALUE": self.is_by_value}
        types = {"E": self.dtype, "S": self.states, "X": self.inputs or self.dtype}
        types["Y"] = self.results or self.dtype
        numeric = kernel_text("engines/cuda/numeric")
        return print_definitions(numeric, constants, **types)

    @property
    def is_by_value(self) -> bool:
        """Whether kernels take the coefficients by value: arguments are limited to 4 KB."""
        return 2 * self.sections * (self.order + 1) * self.states.itemsize <= 3072


@cache
def print_walk(layout: FilterLayout, write: bool, has_states: bool) -> str:
    """Return the program that filters all segments, from propagated states if `has_states`."""
    kernel = kernel_text("filters/cuda/rows" if layout.inner else "filters/cuda/columns")
    return layout.print(write, has_states) + kernel


@cache
def print_repair(layout: FilterLayout, write: bool, halves: int) -> str:
    """Return the kernels that compare the states of segments, and filter wrong segments again."""
    return layout.print(write, False, halves) + kernel_text("filters/cuda/repair")


def propagation_threads(layout: FilterLayout) -> int:
    """Return the number of threads in a block of the propagation kernel."""
    numbers = layout.states.itemsize // 8 * layout.order * layout.sections
    return THREADS if numbers <= 8 else THREADS_OF_MANY


def print_joins(exact: bool) -> str:
    """Return the constants of joins of segments."""
    return f"constexpr bool EXACT = {str(exact).lower()};\nconstexpr int POWERS = {POWERS};\n"


@cache
def print_propagation(layout: FilterLayout, in_order: bool, exact: bool) -> str:
    """Return the program that computes the states before each segment, if `exact` rounded once."""
    threads = 32 if in_order else propagation_threads(layout)
    constants = layout.print(False, False, threads=threads) + print_joins(exact)
    kernel = _PROPAGATE.format(call=_PROPAGATIONS[in_order])
    return constants + kernel_text("filters/cuda/propagate") + kernel


# float32 inputs times gains, and divided by them, stay far from the limits of float64.
_LEAST, _MOST = 2.0**-300, 2.0**300
# A carry-in is added to the first steps, which must exist. More states are left to the transposed
# form: 64 of them spill registers in the loop.
_SHORT, _MANY = 64, 32


def is_direct(cascade: Cascade, steps: int, dtype: np.dtype[Any], states: np.dtype[Any]) -> bool:
    """Return whether to compute in direct form I, with the gain b_0 taken out of each section.

    A sample then takes less arithmetic. Only float32 results allow it: over white signals and
    constants, errors of seven designs were 0.5 to 2.4 times those of the transposed form, both
    about 1e-16 to 1e-13 of the outputs. A single section would gain nothing, since its gain takes
    the operation of b_0.

    >>> two = Cascade.of_sections([[2.0, 1, 0, 1, 0.5, 0], [0.5, 1, 0, 1, 0.5, 0]])
    >>> is_direct(two, 1000, np.dtype("f4"), np.dtype("f8"))
    True
    """
    if dtype.char != "f" or states.char != "d" or steps < _SHORT:
        return False
    is_cascade = len(cascade.sections) > 1 and 0 < cascade.states <= _MANY
    return is_cascade and _has_safe_gains(cascade)


@lru_cache(maxsize=1024)
def _has_safe_gains(cascade: Cascade) -> bool:
    with np.errstate(all="ignore"):
        sizes = np.abs(gains(cascade))
        ratios = np.abs(direct_coefficients(cascade)[0])
    return bool((sizes > _LEAST).all() and (sizes < _MOST).all() and (ratios < _MOST).all())


def gains(cascade: Cascade) -> np.ndarray:
    """Return the product of b_0 of each section and of all later ones, and 1."""
    first = np.array([section.b[0] for section in cascade.sections])
    return np.append(np.cumprod(first[::-1])[::-1], 1.0)


def direct_coefficients(cascade: Cascade) -> tuple[np.ndarray, np.ndarray]:
    """Return b and a, (sections, order + 1), of direct form I.

    b_1, b_2, … are divided by b_0. In place of b_0 and a_0 are the gain by which the inputs of a
    section are multiplied, and −1 over the gain by which its outputs are.
    """
    b, a = (part.copy() for part in cascade.float64_coefficients)
    gain = gains(cascade)
    b /= b[:, :1].copy()
    b[:, 0], a[:, 0] = gain[:-1], -1 / gain[1:]
    return b, a


def coefficients(cascade: Cascade, layout: FilterLayout) -> Any:
    """Return b and −a of all sections: one value, or a function that returns a device array."""
    if layout.is_by_value:
        return _packed(cascade, layout.states, layout.direct)
    return lambda: on_device(_packed, cascade, layout.states, layout.direct)


@lru_cache(maxsize=256)
def _packed(cascade: Cascade, dtype: np.dtype[Any], direct: bool) -> np.ndarray:
    """Return b and −a of all sections as one value."""
    if direct:
        b, a = direct_coefficients(cascade)
    else:
        b = np.array([section.b for section in cascade.sections], dtype)
        a = np.array([section.a for section in cascade.sections], dtype)
    both = np.concatenate([b.ravel(), -a.ravel()])
    return both.view(f"V{both.nbytes}")


def on_device(function: Callable[..., np.ndarray], *arguments: Any) -> Any:
    """Return the bytes of a function's array on the current device, valid on all streams."""
    import cupy

    return _on_device(int(cupy.cuda.runtime.getDevice()), function, *arguments)


@lru_cache(maxsize=128)
def _on_device(device: int, function: Callable[..., np.ndarray], *arguments: Any) -> Any:
    import cupy

    copy = cupy.asarray(function(*arguments).view(np.uint8))
    cupy.cuda.get_current_stream().synchronize()
    return copy
