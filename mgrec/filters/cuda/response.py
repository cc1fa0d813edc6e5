"""The launch of a finite response at every q-th sample."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.cpp import print_definitions
from ...engines.cuda.device import pack_words
from ...engines.cuda.launches import Launch, run_launches
from .coefficients import on_device

RESULTS, THREADS = 8, 128
"""Results of a thread, and threads of a block."""
_KERNEL = """
extern "C" __global__ void __launch_bounds__(THREADS) respond_kernel(
    const Arrays arrays, const E* taps, const Shape shape) {
  respond(arrays, taps, shape, blockIdx.x * (long long)THREADS + threadIdx.x);
}
"""


@cache
def _print_program(inputs: Any, dtype: Any, results: Any) -> str:
    header = kernel_text("engines/cuda/scalar/numeric", "engines/cuda/scalar/half")
    numbers = {"RESULTS": RESULTS, "THREADS": THREADS}
    text = print_definitions(header, numbers, X=inputs, E=dtype, Y=results)
    return text + kernel_text("filters/cuda/response") + _KERNEL


def write_responses(
    taps: tuple[float, ...], x: Any, start: int, q: int, dtype: np.dtype[Any], results: Any
) -> None:
    """Write results (outer, count, inner) from samples (outer, steps, inner), computed in `dtype`.

    Result j is the sum of taps k times sample start + j·q − k, each rounded as in NumPy.
    """
    outer, steps, inner = x.shape
    count = results.shape[1]
    blocks = -(-outer * -(-count // RESULTS) * inner // THREADS)
    if not blocks:
        return
    arguments = (
        pack_words([x.data.ptr, results.data.ptr]),
        on_device(np.array, taps, dtype),
        pack_words([outer, steps, inner, count, start, q, len(taps)]),
    )
    text = _print_program(x.dtype, dtype, results.dtype)
    # Products and sums are rounded one by one.
    run_launches(Launch(text, "respond_kernel", blocks, THREADS, arguments, is_fused=False))
