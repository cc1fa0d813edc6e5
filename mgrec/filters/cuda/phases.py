"""The phases of a chunk of CuPy arrays: precompute, determine, and prepared solvers.

A chunk of a contractive filter is filtered from states of 0. After its *prefix* the response to any
finite states is below the smallest number of the dtype: the prefix alone is filtered again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, ClassVar

import numpy as np

from ...core.arrays.array_types import cast, is_bfloat16
from ...core.arrays.chunk import Chunk, write_contiguous
from ...core.contract.kernels import PreparedSolver, ShardSolver
from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.cpp import print_definitions
from ...engines.cuda.device import (
    MULTIPROCESSORS,
    SCRATCH_IS_SHARED,
    Device,
    array_at,
    fetch,
    pack_words,
    raise_if_capturing,
    scratch,
)
from ...engines.cuda.launches import Launch, LaunchByAddress, run_launches
from ..cascade import Cascade, power
from ..kernels import FilterKernels
from ..recurrence import CascadeSummary, is_safe
from .correlations import differentiate_coefficients, prepare_adjoint
from .launch import NEGLIGIBLE, NEGLIGIBLE_IN_FLOAT32, FilterLaunches, one_pass, partition_rows
from .program import WIDE, FilterLayout, is_direct, on_device, weight_of
from .shards import FilterShardSolver

# A light filter has at most LIGHT states. A lane takes many samples at a time up to MEDIUM states.
LIGHT, MEDIUM = 8, 16
# The copy engine copies segments of at least so many numbers.
_LONG = 1024
# Dtypes of inputs that kernels cast.
_CAST_IN_KERNELS = "bBhHiIlLqQefd"


def kernels(method: str) -> FilterKernels:
    """Return the phases; filters have one method."""
    return FilterKernels(
        determine_filter,
        precompute_filter,
        speculate=_speculate,
        correct=_correct,
        prepare_solver=_prepare_solver,
        prepare_shard=_prepare_shard,
        is_directed=True,
        differentiate_coefficients=differentiate_coefficients,
        prepare_adjoint=prepare_adjoint,
        respond=write_responses,
    )


def _table_of(pieces: Sequence[Any]) -> Any:
    """Return the number of pieces, and where each would start and ends: see columns.cuh."""
    import cupy

    stops = np.cumsum([piece.shape[1] for piece in pieces])
    ends = [piece.data.ptr + piece.nbytes for piece in pieces]
    bytes_of_step = pieces[0].nbytes // pieces[0].shape[1]
    table = np.stack([ends - stops * bytes_of_step, stops], axis=1)
    return cupy.asarray(np.concatenate([[[len(pieces), 0]], table]))


def determine_filter(
    cascade: Cascade, chunk: Chunk, carry_in: Any, result: Any, is_bounded: bool = False
) -> Any:
    """Write the outputs of a chunk, and return the states after it if `carry_in` is not None.

    The operand of the chunk is x, on the current device; its dtype is that of the outputs. Kernels
    cast a real x of another dtype, without a copy, if the outputs are real. `carry_in` is an array
    (states, outer, inner) of float64 or complex128, on the device or in host memory.

    If `is_bounded`, no output of the WIDE columns comes near overflow, and all are rounded to
    float32. Operands are then consecutive steps of x, which the kernels read where they are; a
    reversed chunk has one.
    """
    import cupy

    raise_if_capturing("a filter", SCRATCH_IS_SHARED)
    if chunk.reverse and chunk.shape[2] < WIDE:
        backward = cupy.ascontiguousarray(chunk.operands[0][:, ::-1])
        outputs = cupy.empty(chunk.shape, chunk.dtype)
        chunk = replace(chunk, operands=(backward,), reverse=False)
        carry_out = determine_filter(cascade, chunk, carry_in, outputs)
        result[...] = outputs[:, ::-1]
        return carry_out
    if carry_in is not None:
        states = cupy.asarray(carry_in, cascade.state_dtype(chunk.dtype))
        carry_in = cupy.ascontiguousarray(states)
    launches, x = _launches_of(cascade, chunk, result, is_bounded)
    memory = launches(x, carry_in, result)
    return None if carry_in is None else launches.carry_out(memory)


def precompute_filter(cascade: Cascade, chunk: Chunk) -> Callable[[], CascadeSummary]:
    """Launch the summary of a chunk; the returned function waits for it."""
    import cupy

    launches, x = _launches_of(cascade, chunk, None)
    memory = launches(x, None, None)
    # A copy, so that the next launch of the stream can use the memory.
    wait = fetch(cupy.ascontiguousarray(launches.carry_out(memory)))
    overflows = fetch(launches.is_near_overflow(memory))

    def summary() -> CascadeSummary:
        offset = wait()
        is_suspect = not np.isfinite(offset).all() or bool(overflows())
        redo = None
        if is_suspect or not is_safe(cascade, chunk.steps):
            redo = chunk.map_arrays(lambda array: array.get(), chunk.shape)
        return CascadeSummary(cascade, chunk.steps, offset, redo)

    return summary


def _prepare_solver(cascade: Cascade, chunk: Chunk, carry_in: Any, result: Any) -> PreparedSolver | None:
    """Return a solver for chunks of the same signature, or None if CuPy has to cast x.

    Its operands are x and, unless `carry_in` is None, the states before the first step.
    """
    raise_if_capturing("a filter", SCRATCH_IS_SHARED)
    inputs = chunk.operands[0].dtype
    if inputs != chunk.dtype and not is_cast_in_kernels(inputs, chunk.dtype):
        return None
    launches, _ = _launches_of(cascade, chunk, result)
    bound, size = LaunchByAddress(launches.prepared), launches.offsets[-1]
    state_dtype = cascade.state_dtype(chunk.dtype)
    has_carry_in = carry_in is not None
    is_cast = has_carry_in and carry_in.dtype != state_dtype
    signature = (carry_in.shape, carry_in.dtype) if is_cast else None

    def solve(operands: Sequence[int], results: Sequence[int]) -> Any:
        raise_if_capturing("a filter", SCRATCH_IS_SHARED)
        before = operands[1] if has_carry_in else 0
        if signature:
            states = cast(array_at(before, *signature), state_dtype)
            before = states.data.ptr
        memory = scratch(size)
        bound([launches.pointers(memory.data.ptr, operands[0], before, results[0])])
        return launches.carry_out(memory) if has_carry_in else None

    return solve


def _launches_of(
    cascade: Cascade, chunk: Chunk, result: Any, is_bounded: bool = False
) -> tuple[FilterLaunches, Any]:
    """Return the launches for a chunk that is not empty, and x, cast unless kernels cast it."""
    import cupy

    x, has_pieces = chunk.operands[0], len(chunk.operands) > 1
    inputs = x.dtype if is_cast_in_kernels(x.dtype, chunk.dtype) else None
    if inputs is None:
        x = cast(x, chunk.dtype)
    pieces = chunk.operands if has_pieces else (x,)
    aligned = all(map(_is_aligned, pieces)), result is None or _is_aligned(result)
    results = None if result is None else result.dtype
    signature = cascade, chunk.shape, chunk.dtype, aligned, results, inputs, chunk.reverse
    launches = _launches(*signature, is_bounded, has_pieces, cupy.cuda.runtime.getDevice())
    return launches, _table_of(pieces) if has_pieces else x


def _is_aligned(array: Any) -> bool:
    return bool(array.data.ptr % 16 == 0)


def is_cast_in_kernels(inputs: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """Return whether kernels cast samples of dtype `inputs` to `dtype`, that of the results.

    >>> is_cast_in_kernels(np.dtype("int16"), np.dtype("float64"))
    True
    >>> is_cast_in_kernels(np.dtype("float32"), np.dtype("complex128"))
    False
    """
    is_read = inputs.char in _CAST_IN_KERNELS or is_bfloat16(inputs)
    return dtype.kind == "f" and inputs != dtype and is_read


@lru_cache(maxsize=1024)
def _launches(
    cascade: Cascade,
    shape: tuple[int, int, int],
    dtype: np.dtype[Any],
    aligned: tuple[bool, bool],
    results: np.dtype[Any] | None,
    inputs: np.dtype[Any] | None,
    backward: bool,
    is_bounded: bool,
    has_pieces: bool,
    device: int,
) -> FilterLaunches:
    """Return the launches for chunks of one signature on the current device.

    `aligned` says whether x and the results start at multiples of 16 bytes; `results` is the dtype
    of the results, None for a summary; `inputs` is that of x if it differs from `dtype`.
    """
    halves = 2 if dtype.kind == "c" and not cascade.is_complex else 1
    real = np.empty(0, dtype).real.dtype if halves == 2 else dtype
    real_shape = (shape[0], shape[1], shape[2] * halves)
    stored = dtype if results is None else results
    real_stored = np.empty(0, stored).real.dtype if halves == 2 else stored
    layout = choose_layout(cascade, real_shape, real, aligned, inputs=inputs, copies_words=is_bounded)
    layout = replace(layout, results=real_stored, backward=backward, pieces=has_pieces)
    # With three channels, 30 lanes of a warp are busy: nine warps on some multiprocessors, and
    # eight on the others, ran at 0.73 of the floor.
    lanes = MULTIPROCESSORS * _warps(layout) * (32 - 32 % max(layout.inner, 1))
    negligible = NEGLIGIBLE_IN_FLOAT32 if is_bounded else NEGLIGIBLE
    partition = partition_rows(cascade, real_shape, real, layout.items, lanes, negligible)
    repair = choose_layout(cascade, shape, dtype, (False, False), halves == 2, inputs)
    repair = replace(repair, direct=False, results=stored, backward=backward)
    writes = results is not None
    if writes and Device.current().has_bulk_copies:
        layout = _with_bulk_copies(layout, partition.length)
    tiles = one_pass(cascade, partition, layout, real_shape) if writes else None
    return FilterLaunches(
        cascade, real_shape, halves, tiles or partition, layout, repair, writes, tiles is not None, is_bounded
    )


def _warps(layout: FilterLayout) -> int:
    """Return the warps of a multiprocessor: constants, so that results are the same on all devices.

    Twelve warps hide the time of more arithmetic, or of copies number by number, but their segments
    are shorter, next to warm-ups of the same length. On an H200, float32 of order 8 ran at 0.79 of the
    floor with twelve warps and at 0.66 with eight, three columns of order 2 at 0.73 and 0.61, and 2,048
    rows of order 2 at 0.69 and 0.77.
    """
    if not layout.inner or layout.inputs is not None or layout.weight > MEDIUM:
        return 8
    is_busy = layout.dtype.itemsize == 4 and layout.weight > 4
    return 12 if is_busy or layout.inner > 1 or not layout.aligned else 8


def _with_bulk_copies(layout: FilterLayout, length: int) -> FilterLayout:
    """Return the layout for segments of `length` steps, with the copies of the copy engine that pay.

    Copies by threads delay the reads of shared memory behind them, and bulk copies are issued by one
    thread. On an H200, order 1 ran at 0.85 of the floor with bulk copies and at 0.58 without them, order
    2 on float32 and int16 to float64 at 0.83 and 0.81, and at 0.56. Segments of 4,000 steps of float64
    ran at 0.86, and at 0.60 without them; those of 2,048 steps of float32 and float64 at 0.82 and 0.86,
    and at 0.81 and 0.82. 8 sections ran at 0.48 to 0.53 in all ways.
    """
    if layout.inner * length < _LONG:
        return layout
    has_results = layout.aligned_results and layout.results == layout.dtype
    # Inputs and results in one place are copied by the same engine.
    has_inputs = layout.aligned and (has_results or layout.inputs is not None)
    return replace(layout, bulk_inputs=has_inputs, bulk_results=has_results)


def choose_layout(
    cascade: Cascade,
    shape: tuple[int, int, int],
    dtype: np.dtype[Any],
    aligned: tuple[bool, bool],
    widened: bool = False,
    inputs: np.dtype[Any] | None = None,
    copies_words: bool = False,
) -> FilterLayout:
    """Return the constants with which a filter is compiled.

    `widened` treats real coefficients as complex, for complex signals. With `copies_words`, warps
    copy columns of few states in words of 16 bytes, too.
    """
    outer, steps, inner = shape
    # Outputs of the dtype of the inputs take their place in shared memory, and need the same
    # alignment. Those of many columns are not copied in 16-byte words. Inputs are if each warp has
    # 32 columns.
    is_aligned = [
        is_start and inner < WIDE and (outer == 1 or steps * inner * array_dtype.itemsize % 16 == 0)
        for is_start, array_dtype in zip(aligned, (inputs or dtype, dtype), strict=True)
    ]
    is_aligned = is_aligned if inputs else [all(is_aligned)] * 2
    states = np.dtype(np.complex128 if cascade.is_complex or widened else np.float64)
    weight = weight_of(cascade.states, states)
    # Copies of a warp have fewer instructions, and wait longer: over int16, 5 sections ran at 0.633
    # of the floor, and at 0.606 without them; order 2 ran at 0.95 and 0.98. With float32 results,
    # 1 to 4 sections took 31 to 33 us, and 35 to 38 without them.
    has_words = aligned[0] and inner % 32 == 0 and (copies_words or weight > LIGHT)
    is_aligned[0] = is_aligned[0] or has_words
    vector = 16 // dtype.itemsize
    # On an H200, batches of 128 bytes ran at 0.76 of the floor even without arithmetic, those of 256
    # and 512 at 0.92.
    items, stages = (256 if inner == 1 else 128, 2) if inner < WIDE else (128, 3)
    # On float32, order 2 ran at 0.865 of the floor by groups of 8 samples and at 0.823 by 4; 8
    # sections ran at 0.71 by 16 and at 0.66 by 4.
    direct = not widened and is_direct(cascade, steps, dtype, states)
    group = 4 if weight <= 64 else 1
    if direct:
        # A sample waits for four consecutive operations of each section: many samples fill the
        # time. 8 sections ran at 0.73 with 12 warps, whose copies are shorter, and at 0.77 with 8.
        group = 16 if weight <= MEDIUM else 8
    elif LIGHT < weight <= MEDIUM and (dtype.itemsize == 4 or inner >= WIDE):
        group = 16
    elif dtype.itemsize == 4 and weight <= 2:
        group = 8
    return FilterLayout(
        cascade.order,
        len(cascade.sections),
        dtype,
        states,
        inner if inner < WIDE else 0,
        feedback=not cascade.is_feed_forward,
        items=items // dtype.itemsize if inner < WIDE else 16,
        stages=stages,
        group=max(vector, group),
        aligned_results=is_aligned[1],
        inputs=inputs,
        aligned=is_aligned[0],
        direct=direct,
        batches=max(1, dtype.itemsize // inputs.itemsize) if inputs and inner < WIDE else 1,
    )


# The prefix is at most this part of a chunk.
PREFIX_FRACTION = 8


@dataclass(frozen=True)
class DevicePrefix:
    """The samples of a chunk (outer, steps, inner) on which its states have an effect."""

    cascade: Cascade
    first: Chunk
    operand_bytes: ClassVar[int] = 0  # The samples are a copy.


def _speculate(
    cascade: Cascade, chunk: Chunk, results: tuple[Any, ...]
) -> Callable[[], tuple[CascadeSummary, DevicePrefix] | None] | None:
    """Launch the filter of a chunk from states of 0.

    Return a function that waits for it and returns the summary and the prefix, or None if a state
    is not finite. Return None if the prefix is too long.
    """
    steps = _prefix_of(cascade, chunk)
    if not steps:
        return None
    states = np.zeros((cascade.states, *chunk.row_shape), cascade.state_dtype(chunk.dtype))
    wait = fetch(determine_filter(cascade, chunk, states, results[0]))
    x = chunk.operands[0][:, :steps].copy()
    prefix = DevicePrefix(cascade, Chunk((x,), x.shape, chunk.dtype))

    def outcome() -> tuple[CascadeSummary, DevicePrefix] | None:
        carry_out = wait()
        if not np.isfinite(carry_out).all():  # A state that is not finite stays so to the end.
            return None
        return CascadeSummary(cascade, chunk.steps, np.array(carry_out)), prefix

    return outcome


def _prefix_of(cascade: Cascade, chunk: Chunk) -> int:
    """Return the steps of a chunk on which states before it have an effect; 0 if too many."""
    longest = chunk.steps // PREFIX_FRACTION
    if 2 * (cascade.decay - 1) > longest:  # The prefix is longer, whatever the powers of A are.
        return 0
    steps = prefix_steps(cascade, chunk.dtype)
    return steps if steps <= longest else 0


def _prepare_shard(
    cascade: Cascade, chunk: Chunk, carry_in: Any, result: Any, may_speculate: bool
) -> ShardSolver | None:
    """Return a solver for parts of a signal on the ranks of a group; None if it must not guess.

    The first steps of a part alone depend on the states before it.
    """
    import cupy

    is_real = chunk.dtype.kind != "c" and not cascade.is_complex
    has_wide_states = carry_in is None or carry_in.dtype == np.float64
    steps = _prefix_of(cascade, chunk) if may_speculate and is_real and has_wide_states else 0
    if not steps or chunk.shape[0] > 1:
        return None
    zeros = cupy.zeros((cascade.states, *chunk.row_shape), np.float64)
    whole, first = (
        _prepare_solver(cascade, part, zeros, result[:, : part.steps])
        for part in (chunk, chunk.between(0, steps))
    )
    if whole is None or first is None:
        return None
    return FilterShardSolver(cascade, chunk, whole, first, carry_in is not None)


@lru_cache(maxsize=256)
def prefix_steps(cascade: Cascade, dtype: np.dtype[Any]) -> int:
    """Return after how many steps finite states have no effect on outputs; 0 if after too many."""
    limits = np.finfo(dtype)
    bits = limits.maxexp - limits.minexp + limits.nmant + cascade.states
    if not np.isfinite(cascade.decay):
        return 0
    # A**(2 k) is as small as the square of A**k, whose entries float64 holds.
    half = max(1, int(cascade.decay))
    while half < 1 << 40:
        high, _ = power(cascade, half)
        if np.abs(high).max(initial=0.0) <= 2.0 ** -(bits / 2):
            return 2 * half
        half *= 2
    return 0


def _correct(prefix: DevicePrefix, carry_in: np.ndarray, results: tuple[Any, ...]) -> tuple[Any, ...]:
    """Filter the prefix of a chunk from the states before it. May run twice."""
    import cupy

    (result,), first, cascade = results, prefix.first, prefix.cascade
    write_contiguous(lambda y: determine_filter(cascade, first, carry_in, y), result[:, : first.steps])
    if not np.isfinite(carry_in).all():
        # The states make outputs after the prefix infinite or nan.
        response, zeros = cupy.empty(result.shape, result.dtype), cupy.zeros(result.shape, result.dtype)
        determine_filter(cascade, Chunk((zeros,), result.shape, result.dtype), carry_in, response)
        later, response = result[:, first.steps :], response[:, first.steps :]
        cupy.copyto(later, response, where=~cupy.isfinite(response))
    return results


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
    header = kernel_text("engines/cuda/numeric")
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
