"""Launches of sums of exponentials along an axis."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.cpp import print_definitions
from ...engines.cuda.device import pack_words, scratch
from ...engines.cuda.launches import Launch, LaunchByAddress, PreparedLaunches, Slot
from ..borders import (
    FIRST,
    FIRST_INNER,
    FIRST_SAMPLE,
    LAST,
    LAST_INNER,
    LAST_SAMPLE,
    state_after,
    state_before,
)
from ..kernels import NEGLIGIBLE, ExponentialSum, powers_of

LEAST_ROW = 128
"""Steps of a contiguous line from which a warp filters it; shorter ones are filtered as columns."""
RUN = 16
"""Samples of a thread."""
WARPS = 8
"""Warps of a block."""
_PROPAGATION_THREADS = 128
# The struct of pointers that kernels take.
_ARRAYS = Slot(0, (5,), np.dtype(np.int64), None)
_KERNELS = """
extern "C" __global__ void __launch_bounds__(32 * WARPS, {blocks}) summarize_kernel(
    const Arrays arrays, const Shape shape, const Weights with) {{
  filter_{layout}<false>(arrays, shape, with);
}}
extern "C" __global__ void __launch_bounds__(32 * WARPS, {blocks}) filter_kernel(
    const Arrays arrays, const Shape shape, const Weights with) {{
  filter_{layout}<true>(arrays, shape, with);
}}
extern "C" __global__ void __launch_bounds__({threads}) propagate_kernel(
    const Arrays arrays, const Shape shape, const Borders borders) {{
  propagate(arrays, shape, borders);
}}
"""


@dataclass(frozen=True)
class Program:
    """What the kernels are compiled for.

    Attributes
    ----------
    are_rows : bool
        Whether lines are contiguous and long.
    blocks : int
        Blocks of a multiprocessor for which registers are limited.
    """

    poles: int
    is_complex: bool
    is_odd: bool
    are_rows: bool
    inputs: np.dtype[Any]
    results: np.dtype[Any]
    blocks: int

    def warps(self, steps: int) -> int:
        """Return the warps of a block of lines of some steps."""
        return WARPS if self.are_rows else min(WARPS, -(-steps // RUN))

    def length(self, steps: int) -> int:
        """Return the samples of a segment."""
        return RUN * (32 if self.are_rows else self.warps(steps))

    def state_bytes(self, shape: tuple[int, int, int]) -> int:
        """Return the memory of the states of all segments."""
        outer, steps, inner = shape
        segments = outer * inner * -(-steps // self.length(steps))
        return segments * self.poles * (32 if self.is_complex else 16)


@cache
def print_program(program: Program) -> str:
    """Return the text of a program."""
    numbers = {
        "POLES": program.poles, "RUN": RUN, "WARPS": WARPS, "ODD": program.is_odd,
        "IS_SPLIT": program.is_complex,
    }  # fmt: skip
    states = np.dtype(np.complex128 if program.is_complex else np.float64)
    numeric = kernel_text("engines/cuda/scalar/numeric")
    text = print_definitions(numeric, numbers, X=program.inputs, E=program.results, S=states)
    kernels = _KERNELS.format(
        layout="rows" if program.are_rows else "columns",
        threads=_PROPAGATION_THREADS,
        blocks=program.blocks,
    )
    return text + kernel_text("ndimage/cuda/exponentials") + kernels


def choose_program(
    kernel: ExponentialSum, shape: tuple[int, int, int], inputs: Any, results: Any
) -> Program:
    """Return the program of a kernel for rows (outer, steps, inner)."""
    is_complex = any(pole.imag for pole in kernel.poles)
    are_rows = shape[2] == 1 and shape[1] >= LEAST_ROW
    # Registers for 3 blocks: 0.69 ms instead of 0.80 for a spline of rows, 1.2 instead of 1.4 for a
    # Gaussian of columns. Those of a Gaussian of rows do not suffice: 3.0 ms instead of 1.9.
    blocks = 2 if are_rows and is_complex else 3
    return Program(
        len(kernel.poles), is_complex, kernel.is_odd, are_rows, np.dtype(inputs), np.dtype(results),
        blocks,
    )  # fmt: skip


def build_launches(
    kernel: ExponentialSum, mode: str, constants: tuple[float, float],
    shape: tuple[int, int, int], program: Program,
) -> list[Launch]:  # fmt: skip
    """Return the launches over rows (outer, steps, inner) of a shape."""
    outer, steps, inner = shape
    lines, segments = outer * inner, -(-steps // program.length(steps))
    sizes = pack_words([lines, steps, inner, segments])
    weights, borders = _weights(kernel, program), _borders(kernel, mode, constants, steps, program)
    warps = program.warps(steps)
    blocks, threads, shared_bytes = -(-lines * segments // warps), 32 * warps, 0
    if not program.are_rows:
        blocks = -(-lines // 32) * segments
        shared_bytes = 2 * program.poles * threads * (16 if program.is_complex else 8)
    text, arguments = print_program(program), (_ARRAYS, sizes, weights)
    groups = -(-lines * program.poles * 32 // _PROPAGATION_THREADS)
    return [
        Launch(text, "summarize_kernel", blocks, threads, arguments, shared_bytes),
        Launch(text, "propagate_kernel", groups, _PROPAGATION_THREADS, (_ARRAYS, sizes, borders)),
        Launch(text, "filter_kernel", blocks, threads, arguments, shared_bytes),
    ]


def filter_rows(
    kernel: ExponentialSum, mode: str, constants: tuple[float, float], x: Any, dtype: Any,
    left: Any = None, right: Any = None,
) -> Any:  # fmt: skip
    """Return filtered rows (outer, steps, inner) of a CuPy array in a real dtype.

    The states beyond the ends of the rows are `left` and `right`, (outer, poles, inner) of
    complex128, or those of a mode. `constants` are those of even and odd rows.
    """
    import cupy

    result = cupy.empty(x.shape, dtype)
    signature = (kernel, mode, constants, x.shape, x.dtype, result.dtype)
    launch, size = _prepare(*signature, cupy.cuda.runtime.getDevice())
    memory = scratch(size)
    addresses = [array.data.ptr for array in (x, result, memory)]
    if left is None:
        launch([(*addresses, 0, 0)])
        return result
    # They stay in memory until the launch.
    states = [cupy.ascontiguousarray(state) for state in (left, right)]
    launch([(*addresses, *[state.data.ptr for state in states])])
    return result


@lru_cache(maxsize=256)
def _prepare(
    kernel: ExponentialSum, mode: str, constants: tuple[float, float], shape: Any, inputs: Any,
    results: Any, device: int,
) -> tuple[LaunchByAddress, int]:  # fmt: skip
    """Return the launches, and the memory of their states."""
    program = choose_program(kernel, shape, inputs, results)
    launches = build_launches(kernel, mode, constants, shape, program)
    return LaunchByAddress(PreparedLaunches(*launches)), program.state_bytes(shape)


def _weights(kernel: ExponentialSum, program: Program) -> np.ndarray:
    """Return the struct of weights."""
    poles, half = np.array(kernel.poles), RUN // 2
    powers = kernel.powers(RUN + 1)
    beside = np.array(kernel.weights) * poles
    doubled = np.array([powers_of(pole, RUN * 2 ** np.arange(5)) for pole in kernel.poles])
    # The last half of a run backwards is the mirror image of the first.
    first, last = powers[:, :half], powers[:, :RUN][:, : half - 1 : -1]
    taps = np.concatenate([[kernel.middle], (beside[:, None] * powers[:, : RUN - 1]).sum(0).real])
    numbers = np.concatenate([[kernel.middle], taps / 2])
    states = (poles, beside, powers, (first + last) / 2, (first - last) / 2, doubled)
    return _struct(numbers, states, program)


def _borders(
    kernel: ExponentialSum, mode: str, constants: tuple[float, float], steps: int, program: Program
) -> np.ndarray:
    """Return the struct of states beyond the ends of a line."""
    length = program.length(steps)
    last = steps - (-(-steps // length) - 1) * length
    sides = [
        np.stack(_coefficients(kernel, *state(kernel, (steps,), 0, mode, 1.0)), 1)
        for state in (state_before, state_after)
    ]
    return _struct(constants, (kernel.power(length), kernel.power(last), *sides), program)


def _coefficients(kernel: ExponentialSum, weights: Any, constant: Any) -> tuple[np.ndarray, ...]:
    """Return the weights of the states of a line, of its end samples, and of the constant.

    The sum of p^j·x over all samples but the first is (Σ p^j·x − x[0])/p, to be weighted by p.
    """
    poles = np.array(kernel.poles)
    inverse = np.divide(1, poles, where=abs(poles) > NEGLIGIBLE, out=np.zeros_like(poles))
    after, before, first, last = np.zeros((4, poles.size), complex)
    for (_, part), factor in weights.items():
        if part in (FIRST, FIRST_INNER):
            after += factor if part == FIRST else factor * inverse
        if part in (LAST, LAST_INNER):
            before += factor if part == LAST else factor * inverse
        if part in (FIRST_INNER, FIRST_SAMPLE):
            first += factor if part == FIRST_SAMPLE else -factor * inverse
        if part in (LAST_INNER, LAST_SAMPLE):
            last += factor if part == LAST_SAMPLE else -factor * inverse
    return after, before, first, last, constant


def _struct(numbers: Any, states: Any, program: Program) -> np.ndarray:
    """Return doubles and states as one struct, aligned as in C."""
    values = np.concatenate([np.ravel(array) for array in states])
    doubles = values.view(np.float64) if program.is_complex else values.real
    pad = [0.0] if program.is_complex and len(numbers) % 2 else []
    words = np.concatenate([numbers, pad, doubles]).astype(np.float64)
    return words.view(f"V{words.nbytes}")
