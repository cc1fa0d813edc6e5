"""Programs, launches and memory of the partitions of a chunk and of the reduced systems above."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache, partial
from itertools import accumulate
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.cpp import print_definitions
from ...engines.cuda.device import Device, fetch, on_device, pack_words
from ...engines.cuda.launches import Launch, PreparedLaunches, RunLaunches, Slot
from ..errors import SingularSystemError
from ..recurrence import Ends
from ..systems import END_ROWS, strides_of

Shape = tuple[int, int, int]
Layout = tuple[Shape, np.dtype[Any], tuple[Shape, ...], bool]
"""Shape and dtype of a chunk, strides of its operands, and whether these start at multiples of 16 bytes."""
# Threads of a block that merges, solves and opens parts.
MERGERS = 32
# Numbers of a cell, which has the two interface rows of a part, and of a cut between parts.
CELL, CUT = 10, 2
# Numbers from the carry-in of a system to that of the next one.
APART = 2 * CUT
# Numbers at the ends of systems that kernels read in host memory, at most.
IN_HOST_MEMORY = 64
# Threads of a block in which each has an end of a column, and columns from which there are such blocks.
_THREADS, MANY_COLUMNS = 128, 32
STATUS, NONE = 2, -1
"""Numbers of a status, and their value if there is no such system."""
ADDRESSES = np.array([0, 4, 8, 12, 16, 17, 18])
"""Words of the kernels' struct: addresses of the operands, the result, cells and cuts."""


@cache
def print_program(name: str, dtype: np.dtype[np.generic], STAGES: int = 1, **constants: int) -> str:
    """Return a program of tridiagonal systems, whose constants are numbers and flags."""
    numeric = kernel_text("engines/cuda/numeric")
    text = print_definitions(numeric, {"STAGES": STAGES, **constants}, T=dtype)
    return text + kernel_text(f"tridiagonal/cuda/{name}")


def group_of(dtype: np.dtype[np.generic]) -> int:
    """Return how many parts one thread merges: as many as fit the shared memory of any GPU."""
    return 8 if dtype.itemsize == 16 else 16


@dataclass(frozen=True)
class PartitionPlan:
    """The partitions of chunks of one shape (outer, steps, inner), and the launches over them.

    Each thread of a block has a partition. Runs of partitions are merged to parts, level by level,
    until a system is one part.
    """

    shape: Shape
    dtype: np.dtype[np.generic]
    threads: int
    columns: bool  # whether neighbouring threads have neighbouring columns
    aligned: bool  # whether rows start at multiples of 16 bytes

    @property
    def rows(self) -> int:
        """Rows of a partition.

        Longer partitions leave a multiprocessor fewer threads: 2^27 unknowns of float32 took 1,014
        and 1,278 microseconds to reduce and to substitute by 64 rows, 825 and 973 by 32.
        Shorter partitions leave more interface rows.
        """
        return 16 if self.dtype.itemsize == 16 else 32

    @property
    def shared_bytes(self) -> int:
        word = max(1, 16 // self.dtype.itemsize)
        return 4 * self.threads * (self.rows + word) * self.dtype.itemsize

    @property
    def systems(self) -> int:
        return self.shape[0] * self.shape[2]

    @cached_property
    def parts(self) -> tuple[int, ...]:
        """Parts of a system on every level, from the partitions to one part."""
        counts = [-(-self.shape[1] // self.rows)]
        while counts[-1] > 1:
            counts.append(-(-counts[-1] // group_of(self.dtype)))
        return tuple(counts)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Offsets in memory of the cells of every level, then of the cuts, and the end."""
        cells = [CELL * self.systems * parts for parts in self.parts]
        cuts = [CUT * self.systems * (parts + 1) for parts in self.parts]
        size = self.dtype.itemsize
        return tuple(accumulate((size * count for count in cells + cuts), initial=0))

    def words(self, strides: Sequence[Sequence[int]], ends: tuple[int, int]) -> np.ndarray:
        """Return the kernels' struct, without :data:`ADDRESSES`."""
        operands = [word for operand in strides for word in (0, *operand)]
        return np.array([*operands, 0, 0, 0, *self.shape, self.parts[0], *ends], np.int64)

    def cells(self, level: int) -> Slot:
        """Return the slot of a level's cells, after system and status."""
        return Slot(2 + level % len(self.parts))

    def cuts(self, level: int) -> Slot:
        """Return the slot of a level's cuts."""
        return Slot(2 + len(self.parts) + level % len(self.parts))

    def reduce(self, top: int) -> Iterator[Launch]:
        """Yield the launches that write the interface rows of all parts up to a level."""
        yield self.over_partitions("reduce")
        for level in range(top):
            yield self._over_parts("merge", level, self.cells(level), self.cells(level + 1))

    def substitute(self, top: int) -> Iterator[Launch]:
        """Yield the launches that write the cuts below a level with known cuts, and unknowns."""
        for level in reversed(range(top)):
            arrays = self.cells(level), self.cuts(level), self.cuts(level + 1)
            yield self._over_parts("open", level, *arrays)
        yield self.over_partitions("substitute")

    @cached_property
    def launches(self) -> dict[str, tuple[Launch, ...]]:
        """The launches over a chunk.

        ``reduce`` writes the interface rows of a chunk. ``substitute`` follows once the cuts of the top
        level are known. ``solve`` writes the cuts of whole systems, and ``substitute_whole`` follows.
        """
        top = len(self.parts) - 1
        level = max(0, top - 1)  # on which whole systems are solved
        solve = self._over_parts("solve", level, self.cells(level), self.cuts(level), status=Slot(1))
        return {
            "reduce": (*self.reduce(top),),
            "substitute": (*self.substitute(top),),
            "solve": (*self.reduce(level), solve),
            "substitute_whole": (*self.substitute(level),),
        }

    def over_partitions(self, name: str) -> Launch:
        """Return a launch with a partition for each thread."""
        blocks = -(-self.systems * self.parts[0] // self.threads)
        constants = {"THREADS": self.threads, "ROWS": self.rows, "COLUMNS": self.columns}
        text = print_program("partitions", self.dtype, ALIGNED=self.aligned, **constants)
        return Launch(text, f"{name}_kernel", blocks, self.threads, (Slot(0),), self.shared_bytes)

    def _over_parts(self, name: str, level: int, *arrays: Slot, status: Slot | None = None) -> Launch:
        """Return a launch with a group of the parts of a level for each thread."""
        groups, group = -(-self.parts[level] // group_of(self.dtype)), group_of(self.dtype)
        sizes = np.int64(self.parts[level]), np.int64(self.systems)
        text = print_program("interface", self.dtype, GROUP=group, MERGERS=MERGERS)
        arguments = (*arrays, *sizes) if status is None else (*arrays, *sizes, status)
        shared = MERGERS * (CELL * group + 1) * self.dtype.itemsize
        return Launch(
            text, f"{name}_kernel", -(-self.systems * groups // MERGERS), MERGERS, arguments, shared
        )


@lru_cache(maxsize=1024)
def prepared_launches(plan: PartitionPlan, name: str, device: int) -> RunLaunches:
    """Return the launches over a chunk under a name, compiled for a device."""
    return PreparedLaunches(*plan.launches[name])


@lru_cache(maxsize=1024)
def plan_partitions(shape: Shape, dtype: np.dtype[Any], is_aligned: bool, device: Device) -> PartitionPlan:
    """Return the partitions of chunks of one shape.

    `is_aligned` states whether arrays that vary along the steps start at multiples of 16 bytes.
    """
    outer, steps, inner = shape
    columns = inner > 1
    is_aligned &= not columns and (outer == 1 or steps * dtype.itemsize % 16 == 0)
    threads = 128 if dtype.itemsize == 4 else 32  # three, or six, such blocks fit a multiprocessor
    plan = PartitionPlan(shape, dtype, threads, columns, is_aligned)
    if plan.shared_bytes > device.shared_bytes:
        return replace(plan, threads=threads // 2)
    return plan


class LaunchMemory:
    """Memory of the launches over one chunk.

    Operands are given by their strides and addresses; `result` is 0 for none. `ends` states whether
    systems have their first and their last row: 0, 1 for all systems, or 2 for the first, or the last,
    of the outer ones alone.
    """

    def __init__(
        self,
        plan: PartitionPlan,
        ends: tuple[int, int],
        strides: Sequence[Sequence[int]],
        addresses: Sequence[int],
        result: int,
    ) -> None:
        import cupy

        self._plan = plan
        # On the device: cells and cuts of all levels, and the status, the first singular system and the
        # first that contains nan or inf, or NONE.
        self._buffer = cupy.empty(plan.offsets[-1] + 8 * STATUS, np.uint8)
        self._status = self._buffer[-8 * STATUS :].view(np.int64)
        self._status.fill(NONE)
        levels = [self._buffer.data.ptr + offset for offset in plan.offsets[:-1]]
        words = plan.words(strides, ends)
        words[ADDRESSES] = [*addresses, result, levels[0], levels[len(plan.parts)]]
        self._arguments = pack_words(words), self._status, *map(np.uint64, levels)

    def reduce(self) -> Callable[[], np.ndarray]:
        """Launch the reduction of all systems; the returned function waits for their cells."""
        self._launch("reduce")
        return fetch(self._numbers(self._plan.cells(-1)))

    def solve_chunk(self, known: Any) -> bool:
        """Solve a chunk whose unknowns at the ends are known; return whether all operands are finite."""
        self._launch("reduce")
        self._numbers(self._plan.cuts(-1))[...] = on_device(known).reshape(-1)
        self._launch("substitute")
        # The coefficients of both rows; see InterfaceRows.
        rows = self._numbers(self._plan.cells(-1)).get().reshape(-1, 2, CELL // 2)
        is_singular = (rows[..., :4] == 0).all((1, 2))
        if is_singular.any():
            raise SingularSystemError(int(is_singular.argmax()))
        return bool(np.isfinite(rows).all())

    def solve_whole(self) -> bool:
        """Solve whole systems; return whether all operands are finite.

        The host knows of singular ones before the last kernels start.
        """
        self._launch("solve")
        wait = fetch(self._status)
        self._launch("substitute_whole")
        singular, not_finite = wait()
        if singular != NONE:
            raise SingularSystemError(int(singular))
        return bool(not_finite == NONE)

    def _launch(self, name: str) -> None:
        import cupy

        prepared_launches(self._plan, name, cupy.cuda.runtime.getDevice())(self._arguments)

    def _numbers(self, slot: Slot) -> Any:
        """Return the numbers for the slot of a level's cells or cuts."""
        start, stop = self._plan.offsets[slot.number - 2 : slot.number]
        return self._buffer[start:stop].view(self._plan.dtype)


def reduce_ends(
    layout: Layout, ends: Ends, rows: int, addresses: Sequence[int], cells: int, are_joined: bool = False
) -> bool:
    """Launch the reduction of the first and of the last rows of a chunk to cells at an address.

    They are two outer systems for one launch. Cells of many columns may be joined to pairs of numbers.
    Return False if the GPU has too little shared memory.
    """
    import cupy

    device = cupy.cuda.runtime.getDevice()
    words, launch = _launch_of_ends(*layout, ends[:2], rows, are_joined, device)
    if launch is None:
        return False
    words = words.copy()
    words[ADDRESSES] = [*addresses, 0, cells, 0]
    launch((pack_words(words),))
    return True


@lru_cache(maxsize=1024)
def _launch_of_ends(
    shape: Shape,
    dtype: np.dtype[Any],
    strides: tuple[Shape, ...],
    is_aligned: bool,
    ends: tuple[bool, bool],
    rows: int,
    are_joined: bool,
    number: int,
) -> tuple[np.ndarray, RunLaunches | None]:
    """Return the kernel's struct, without addresses, and the launch over the ends of a chunk."""
    start = shape[1] - rows
    strides = tuple([(start * step, step, inner) for _, step, inner in strides])
    is_aligned &= start * dtype.itemsize % 16 == 0
    device = Device.current()
    plan = plan_partitions((2, rows, shape[2]), dtype, is_aligned, device)
    plan = replace(plan, threads=END_ROWS // plan.rows)
    words = plan.words(strides, (2 * ends[0], 2 * ends[1]))
    if shape[2] >= MANY_COLUMNS:
        text = print_program("ends", dtype, THREADS=_THREADS, JOINED=are_joined)
        blocks = -(-2 * shape[2] // _THREADS)
        return words, PreparedLaunches(Launch(text, "ends_kernel", blocks, _THREADS, (Slot(0),)))
    has_memory = plan.shared_bytes + CELL * plan.threads * dtype.itemsize <= device.shared_bytes
    # Systems of at most `threads` partitions, one a block.
    launch = replace(plan.over_partitions("reduce_short"), blocks=plan.systems)
    return words, PreparedLaunches(launch) if has_memory else None


def readable(carry_in: Any, dtype: np.dtype[Any]) -> Any:
    """Return the unknowns at the ends of systems as an array that kernels can read.

    A copy of few numbers to the device would take the host 45 us: kernels read them in its memory.
    """
    if carry_in.size > IN_HOST_MEMORY:
        return on_device(carry_in).astype(dtype, order="C", copy=False)
    from cupyx import empty_pinned

    known = empty_pinned(carry_in.shape, dtype)
    known[...] = carry_in
    return known


def neighbour_addresses(ends: Ends, known: Any) -> tuple[int, int]:
    """Return the addresses of the unknowns before and after each system, or 0."""
    address = known.ctypes.data if isinstance(known, np.ndarray) else known.data.ptr
    return 0 if ends.has_first else address, 0 if ends.has_last else address + 3 * known.itemsize


def allocator(ends: Ends, chunk: Chunk, result: Any) -> Callable[[Sequence[int], int], LaunchMemory]:
    """Return ``(addresses of operands, address of the result) -> memory`` of a chunk's launches."""
    shape, dtype, strides, is_aligned = layout_of(chunk)
    is_aligned &= result is None or result.data.ptr % 16 == 0
    plan = plan_partitions(shape, dtype, is_aligned, Device.current())
    return partial(LaunchMemory, plan, ends[:2], strides)


def layout_of(chunk: Chunk) -> Layout:
    """Return the layout of a chunk whose operands are on the device."""
    strides = tuple([strides_of(operand, chunk.shape) for operand in chunk.operands])
    is_aligned = all(operand.data.ptr % 16 == 0 for operand in chunk.operands)
    return chunk.shape, chunk.dtype, strides, is_aligned


def copied_scalars(on_gpu: Chunk, chunk: Chunk) -> list[Any]:
    """Return the copy on the device of each operand that is a scalar; None for arrays.

    Prepared calls retain no reference to the caller's arrays.
    """
    pairs = zip(on_gpu.operands, chunk.operands, strict=True)
    return [None if here is operand else here for here, operand in pairs]


def addresses_with(scalars: Sequence[Any], operands: Sequence[Any]) -> list[int]:
    """Return the addresses of all operands, of which `operands` has those of arrays."""
    pairs = zip(scalars, operands, strict=True)
    return [address if scalar is None else scalar.data.ptr for scalar, address in pairs]
