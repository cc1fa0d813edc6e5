"""The shard of a rank: launches between which shards exchange the summaries of their rows.

A shard of a linear recurrence is solved as a chunk is (:mod:`.phases`): speculatively where that
pays, otherwise by a summary and a pass from the true carry-in. Results of two bytes are rounded
states: a speculative shard composes its last steps again for the last state in float32.

The device propagates, from the messages of all ranks, in the order and with the bits of the host.
The host waits once, at the end, for the answer whether the messages suffice: they do not if a row
is near overflow, or if the state after a speculative shard depends on its carry-in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ...core.algebra.transfer_map import TransferMap, affine
from ...core.arrays.chunk import Chunk, is_uncopied
from ...core.contract.kernels import HEADER, CacheMiss, ShardMessages, ShardSolver, ShardSteps
from ...engines.cuda.device import Device, scratch
from ...engines.cuda.launches import Launch, LaunchByAddress, PreparedLaunches, is_value, prepare_cached
from ..summaries import guarded_affine, margins
from .coefficients import is_ahead
from .determine import prepare, states_of
from .layouts import choose_precompute
from .program import ScanLayout, carry_in_types, describe, print_program, stored_dtype
from .reduction import SPANS, launch_reduction
from .speculation import OUTCOME_SIZE, longest_prefix, prefix_of_constant, prepare_speculation, sign_of_powers

Arrays = tuple[Any, ...]
SUMMARY = 64
"""Bytes of the summary of a row in a message."""
EVIDENCE = 5
"""Numbers of ``struct Evidence``."""
_COLUMNS_FRACTION = 64
"""The prefix of columns is at most 1/64 of a shard: it is determined twice."""
_LANES, _THREADS, _STRIDES = 32, 256, 64
"""Columns and threads of a block, and the number of blocks that check a column, in strides."""
_PATIENCE = 2
"""Failures after which shards are summarised instead of solved speculatively."""
_WIDTH = 8
"""Components of the guarded map."""

_KERNELS = """
#define LINKS long long digest, const Stored *links, const Stored *edges, char *message
extern "C" __global__ void __launch_bounds__(THREADS) check_kernel(
    const Stored* s, const Stored* t, const Stored* results, long long steps, long long inners,
    long long prefix, int strides, Evidence* evidence) {{
  check_columns(s, t, results, steps, inners, prefix, strides, evidence);
}}
extern "C" __global__ void __launch_bounds__(THREADS) columns_kernel(
    const Evidence* evidence, int strides, const Stored* results, long long steps,
    long long inners, double top, {entry_in}, LINKS) {{
  const Entry entry = {{{entry}}};
  write_columns(evidence, strides, results, steps, inners, top, entry, digest,
                Message<Summary>(message));
  write_links(links, edges, inners, Message<Summary>(message));
}}
extern "C" __global__ void __launch_bounds__(THREADS) rows_kernel(
    const Told* told, long long rows, long long prefix, double sign, double top, {entry_in},
    LINKS) {{
  const Entry entry = {{{entry}}};
  write_rows(told, rows, prefix, sign, top, entry, digest, Message<Summary>(message));
  write_links(links, edges, rows, Message<Summary>(message));
}}
extern "C" __global__ void __launch_bounds__(THREADS) maps_kernel(
    const T* maps, long long rows, {entry_in}, LINKS) {{
  const Entry entry = {{{entry}}};
  write_maps(maps, rows, entry, digest, Message<Summary>(message));
  write_links(links, edges, rows, Message<Summary>(message));
}}
extern "C" __global__ void __launch_bounds__(THREADS) propagate_kernel(
    char* messages, long long stride, int rank, int size, long long digest, long long rows,
    T* carry_ins, Stored* states, Stored* following, long long* status) {{
  propagate(Messages<Summary>{{messages, stride}}, rank, size, digest, rows, carry_ins, states,
            following, status);
}}
"""


def prepare_shard(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays, speculates: bool
) -> ShardSolver | None:
    """Return a solver for shards of the same shapes and dtypes, or None for other recurrences.

    `speculates` says whether speculation pays for a shard of this size.
    """
    is_linear = transfer_map == affine and chunk.dtype.kind == "f"
    if not is_linear or len(results) > 1 or is_ahead(chunk) or chunk.shape[0] > 1:
        return None
    if results[0].dtype not in (chunk.dtype, stored_dtype(chunk)):
        return None
    initial = states_of(carry_in, chunk, results[0].dtype)
    if not all(map(is_uncopied, initial, carry_in)):
        return None
    return _Shard(chunk, initial[0], results[0], speculates)


def prepare_linked(chunk: Chunk, initial: Any, result: Any, speculates: bool) -> ShardSolver:
    """Return a solver for shards (1, steps, inner) of which each begins after a step of its own.

    The state after that step is a link times the state after the shard before, plus `initial`. All
    these are arrays (1, inner). The solver has four more arguments, which are addresses of such
    arrays: the links to the next shard and the edges for the shard before, which are read; the
    states after the step and the edges of the next shard, or 0, which are written.
    """
    return _Shard(chunk, initial, result, speculates, are_linked=True)


class _Shard(ShardSolver):
    """The solver: see :class:`mgrec.core.contract.kernels.ShardSolver`."""

    def __init__(
        self, chunk: Chunk, initial: Any, result: Any, speculates: bool, are_linked: bool = False
    ) -> None:
        # Arrays are replaced by descriptions, so that none stays alive.
        self._chunk = replace(chunk, operands=tuple(map(_described, chunk.operands)))
        self._initial, self._result = _described(initial), _described(result)
        self._rows, self._speculates, self._failures = prod(chunk.row_shape), speculates, 0
        self._launches: dict[int, _Guess | _Summary] = {}
        self._are_linked = are_linked
        self.message_bytes = HEADER + SUMMARY * self._rows

    def __call__(self, arguments: Sequence[Any], targets: Sequence[int], shards: ShardMessages) -> ShardSteps:
        prefix = self._prefix(arguments[0])
        launches = self._launches.get(prefix)
        if launches is None:
            launches_of = _Guess if prefix else _Summary
            launches = launches_of(self._chunk, self._initial, self._result, prefix)
            self._launches[prefix] = launches
        count = len(arguments) - 4 if self._are_linked else len(arguments)
        try:
            yield from launches(arguments[:count], targets[0], shards, arguments[count:] or (0,) * 4)
        except CacheMiss:
            # All ranks have this answer.
            self._failures += 1
            self._speculates = self._speculates and self._failures < _PATIENCE
            raise

    def _prefix(self, s: Any) -> int:
        """Return the steps after which the shard should not depend on its carry-in, or 0."""
        chunk = self._chunk
        is_rounded = self._result.dtype != chunk.dtype
        if not self._speculates or (is_rounded and not _are_columns(chunk)):
            return 0
        if is_value(chunk.operands[0]):
            return prefix_of_constant(np.asarray(s, chunk.dtype), chunk)
        if chunk.row_shape == (1, 1):
            return longest_prefix(chunk)
        most = chunk.steps // _COLUMNS_FRACTION if chunk.operands[0].shape == chunk.shape else 0
        return 1 << most.bit_length() - 1 if most else 0


@dataclass(frozen=True)
class _Array:
    """The signature of an array."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    address: int

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def data(self) -> Any:
        return self

    @property
    def ptr(self) -> int:
        return self.address

    def part(self, first: int, count: int) -> _Array:
        """Return `count` steps of an array (1, steps, inner)."""
        _, _, inner = self.shape
        return _Array((1, count, inner), self.dtype, self.address + self.offset(first))

    def offset(self, steps: int) -> int:
        return steps * self.shape[2] * self.dtype.itemsize


def _described(array: Any) -> Any:
    return array if is_value(array) else _Array(array.shape, array.dtype, array.data.ptr % 16)


def _is_stream(operand: Any, chunk: Chunk) -> bool:
    return not is_value(operand) and operand.shape[1] == chunk.steps


def _are_columns(chunk: Chunk) -> bool:
    """Return whether coefficients and terms are arrays of several columns."""
    arrays = [x for x in chunk.operands if not is_value(x)]
    return chunk.row_shape != (1, 1) and [x.shape for x in arrays] == [chunk.shape] * 2


class _Space:
    """Memory of a call, in parts, which the next call on the stream has again."""

    def __init__(self, *sizes: int) -> None:
        self._offsets = np.cumsum([0, *(-(-size // 256) * 256 for size in sizes)]).tolist()

    def addresses(self) -> list[int]:
        """Return the addresses of the parts, in the order of their sizes."""
        start = scratch(self._offsets[-1]).data.ptr
        return [start + offset for offset in self._offsets[:-1]]


def _number(value: Any, dtype: Any) -> np.ndarray:
    return np.array(value, dtype)


class _Launches:
    """What speculative shards and others have in common."""

    def __init__(self, chunk: Chunk, initial: Any, result: Any) -> None:
        self.chunk, self.initial, self.result = chunk, initial, result
        self.rows = prod(chunk.row_shape)
        self.carry_in = _Array(chunk.row_shape, chunk.dtype, 0)
        numbers = [_number(0, char) for char in "qiiq"]
        values = (_Array((1,), np.dtype("u1"), 0), *numbers)
        self.edges = _Array(chunk.row_shape, result.dtype, 0)
        written = self.carry_in, self.edges, self.edges, _Array((1,), np.dtype("q"), 0)
        self.propagation = LaunchByAddress(
            prepare_cached(_prepare_propagation, affine, chunk, values, written)
        )

    def propagate(
        self, operands: Sequence[Any], shards: ShardMessages, carry_in: int, written: Sequence[int]
    ) -> None:
        """Launch the propagation from the messages of all shards."""
        self.propagation([*operands, *shards.received, carry_in, *written, shards.status])
        shards.mark()


def _program(chunk: Chunk, initial: Any) -> str:
    layout, files = ScanLayout(_THREADS, 4, reverse=chunk.reverse), ("scans/cuda/shard",)
    source = describe(chunk, stored_dtype(chunk))
    types = carry_in_types((initial,), source)
    return print_program(affine, 1, source, layout, files, _KERNELS, types)


def _prepare_propagation(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays
) -> PreparedLaunches:
    messages, *numbers = carry_in
    text = _program(chunk, np.zeros((), chunk.dtype))
    rows = np.int64(prod(chunk.row_shape))
    arguments = (messages, *numbers, rows, *results)
    return PreparedLaunches(Launch(text, "propagate_kernel", 1, _THREADS, arguments, is_fused=False))


class _Guess(_Launches):
    """The launches of a speculative shard."""

    def __init__(self, chunk: Chunk, initial: Any, result: Any, prefix: int) -> None:
        super().__init__(chunk, initial, result)
        self.prefix, self.is_constant = prefix, is_value(chunk.operands[0])
        self.first_step = chunk.steps - prefix if chunk.reverse else 0
        numbers_of_row = EVIDENCE * _STRIDES if _has_columns(chunk) else 2
        outcome = _Array((OUTCOME_SIZE + numbers_of_row * self.rows,), np.dtype("f8"), 0)
        message = _Array((HEADER + SUMMARY * self.rows,), np.dtype("u1"), 0)
        self.space = _Space(outcome.size * 8, self.rows * chunk.dtype.itemsize)
        numbers = (np.zeros((), chunk.dtype), _number(prefix, "q"), _number(0, "q"), _number(0, "d"))
        self.speculation = LaunchByAddress(
            prepare_cached(
                _prepare_guess,
                affine,
                chunk,
                (*numbers, initial),
                (result, outcome, self.edges, self.edges, message),
            )
        )
        first = replace(
            chunk,
            operands=tuple(
                x.part(self.first_step, prefix) if _is_stream(x, chunk) else x for x in chunk.operands
            ),
            shape=(1, prefix, chunk.shape[2]),
        )
        part = result.part(self.first_step, prefix)
        self.correction = LaunchByAddress(prepare_cached(prepare, affine, first, (self.carry_in,), (part,)))
        self.offsets = [x.offset(self.first_step) if _is_stream(x, chunk) else 0 for x in chunk.operands]

    def __call__(
        self, arguments: Sequence[Any], target: int, shards: ShardMessages, linked: Sequence[int]
    ) -> ShardSteps:
        *operands, initial = arguments
        outcome, _ = self.space.addresses()
        sign = sign_of_powers(operands[0], self.chunk) if self.is_constant else 0.0
        numbers = [0, self.prefix, shards.digest, sign, initial]
        self.speculation([*operands, *numbers, target, outcome, *linked[:2], shards.message])
        yield
        _, carry_in = self.space.addresses()  # another shard may have had the memory meanwhile
        self.propagate(operands, shards, carry_in, linked[2:])
        first = [x + offset if offset else x for x, offset in zip(operands, self.offsets, strict=True)]
        result = target + self.result.offset(self.first_step)
        self.correction([*first, carry_in, result])
        yield
        shards.wait()


def _prepare_guess(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays
) -> PreparedLaunches:
    (state, prefix, digest, sign, initial), (result, outcome, *message) = carry_in, results
    text, s = _program(chunk, initial), chunk.operands[0]
    sizes = np.int64(chunk.steps), np.int64(chunk.shape[2])
    top = np.float64(margins(chunk.dtype).offset_on_gpu)
    if _has_columns(chunk):
        strides = np.int32(_STRIDES)
        single_pass = prepare(transfer_map, chunk, (state,), (result,))
        check = Launch(
            text,
            "check_kernel",
            -(-chunk.shape[2] // _LANES) * _STRIDES,
            _THREADS,
            (
                s,
                s if stored_dtype(chunk) == chunk.dtype else chunk.operands[1],
                result,
                *sizes,
                prefix,
                strides,
                outcome,
            ),
        )
        write = Launch(
            text,
            "columns_kernel",
            1,
            _THREADS,
            (outcome, strides, result, *sizes, top, initial, digest, *message),
        )
        launches = (*single_pass.launches, check, write)
        return PreparedLaunches(*launches, units=single_pass.units)
    speculation = prepare_speculation(transfer_map, chunk, (state, prefix), (result, outcome))
    rows, known = np.int64(prod(chunk.row_shape)), prefix if is_value(s) else np.int64(0)
    write = Launch(
        text, "rows_kernel", 1, _THREADS, (outcome, rows, known, sign, top, initial, digest, *message)
    )
    return PreparedLaunches(*speculation.launches, write, units=speculation.units)


def _has_columns(chunk: Chunk) -> bool:
    """Return whether the coefficients are an array of several columns."""
    return not is_value(chunk.operands[0]) and chunk.row_shape != (1, 1)


class _Summary(_Launches):
    """The launches of a shard that is summarised first."""

    def __init__(self, chunk: Chunk, initial: Any, result: Any, prefix: int) -> None:
        super().__init__(chunk, initial, result)
        size = chunk.dtype.itemsize
        _, _, spans = _reduction(chunk, [None] * _WIDTH)
        self.space = _Space(_WIDTH * self.rows * size, prod(spans), self.rows * size)
        maps = [_Array(chunk.row_shape, chunk.dtype, 0)] * _WIDTH
        message = _Array((HEADER + SUMMARY * self.rows,), np.dtype("u1"), 0)
        self.map_bytes = self.rows * size
        self.summary = LaunchByAddress(
            prepare_cached(
                _prepare_summary,
                guarded_affine(chunk.dtype),
                chunk,
                (_number(0, "q"), initial),
                (*maps, _Array(spans, np.dtype("u1"), 0), self.edges, self.edges, message),
            )
        )
        self.determination = LaunchByAddress(
            prepare_cached(prepare, affine, chunk, (self.carry_in,), (result,))
        )

    def __call__(
        self, arguments: Sequence[Any], target: int, shards: ShardMessages, linked: Sequence[int]
    ) -> ShardSteps:
        *operands, initial = arguments
        maps, spans, _ = self.space.addresses()
        components = [maps + k * self.map_bytes for k in range(_WIDTH)]
        self.summary([*operands, shards.digest, initial, *components, spans, *linked[:2], shards.message])
        yield
        *_, carry_in = self.space.addresses()
        self.propagate(operands, shards, carry_in, linked[2:])
        self.determination([*operands, carry_in, target])
        yield
        shards.wait()


def _reduction(chunk: Chunk, maps: Sequence[Any]) -> tuple[Launch, Launch, tuple[int, ...]]:
    source, guarded = describe(chunk, stored_dtype(chunk)), guarded_affine(chunk.dtype)
    layout = choose_precompute(chunk, source, _WIDTH, 1, Device.current())
    return launch_reduction(guarded, chunk, source, replace(layout, guarded=True), maps)


def _prepare_summary(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays
) -> PreparedLaunches:
    (digest, initial), (*maps, spans, links, edges, message) = carry_in, results
    *reduction, _ = _reduction(chunk, maps)
    launches = [
        replace(launch, arguments=tuple(spans if x is SPANS else x for x in launch.arguments))
        for launch in reduction
    ]
    write = Launch(
        _program(chunk, initial),
        "maps_kernel",
        1,
        _THREADS,
        (maps[0], np.int64(prod(chunk.row_shape)), initial, digest, links, edges, message),
    )
    return PreparedLaunches(*launches, write)
