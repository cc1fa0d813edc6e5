"""Successive over-relaxation of CuPy arrays: grids in strips, bands and tiles."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ...core.arrays.chunk import is_uncopied
from ...core.backends import CPU, backend_of
from ...core.contract.kernels import PreparedSolver
from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.cpp import print_definitions
from ...engines.cuda.device import Device, on_device, pack_words, raise_if_capturing
from ...engines.cuda.launches import Launch, LaunchByAddress, PreparedLaunches
from ..cuda import Shape, StripPartition
from .api import LaidOutGrids, RelaxationKernels, Sweeps

LANES = 32
_TILE_BYTES = 128
# Bands and groups of a block: each has a scheduler of a multiprocessor to itself, or half of one if
# a grid then is one strip.
_WARPS, _MOST_WARPS = 2, 8
_GROUPS = (4, 3, 2, 1)
# Sweeps of a launch, and of a group by the bytes of a number. Registers and right-hand sides limit
# both.
_SWEEPS, _OF_GROUP = 16, {4: 8, 8: 4}
# Pairs of sweeps of a group and the threads of a multiprocessor that have registers for so many, by
# the bytes of a number; _FEW threads for more sweeps.
_THREADS, _FEW = {4: ((1, 768), (4, 512)), 8: ((1, 512),)}, 256
# Words with which the strips of several grids exchange edges. Later launches use them again.
MOST_WORDS = 1 << 22
_MOST = 2**31 - 2**12


def kernels(method: str) -> RelaxationKernels:
    """Return the phases of a chunk."""
    return RelaxationKernels(
        determine_relaxation, lay_out_grids=lay_out_grids, prepare_solver=prepare_relaxation
    )


@dataclass(frozen=True)
class RelaxationLayout:
    """Constants that the kernel is compiled with. Results do not depend on them."""

    dtype: np.dtype[np.floating]
    sweeps: int  # of a group, which one warp does
    groups: int  # of a launch
    warps: int  # bands of a strip, each of 32 rows
    has_rhs: bool
    is_checked: bool  # whether the launch returns the largest update of the last sweep
    is_single_strip: bool = False  # whether a grid is one strip
    blocks: int = 1  # of a multiprocessor

    @property
    def steps(self) -> int:
        """Steps of a tile."""
        return _TILE_BYTES // self.dtype.itemsize

    @property
    def threads(self) -> int:
        """One warp for each band and group sweeps, another one copies; two for a single group."""
        return LANES * self.warps * (self.groups + max(2, self.groups))

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block: the kernel's struct Shared, or a little more."""
        word = 16 // self.dtype.itemsize
        read = (LANES + 1) * (3 * self.steps + word)
        computed = 2 * (LANES + 1) * (self.steps + word)
        rhs = (LANES + self.sweeps) * (4 * self.steps + 3 * self.sweeps) if self.has_rhs else 1
        edges = 2 * self.sweeps * self.steps
        band = read + self.groups * (computed + rhs + edges)
        size = self.warps * band + self.groups * edges
        return -(-size * self.dtype.itemsize // 16) * 16

    @property
    def _most_threads(self) -> int:
        limits = _THREADS[self.dtype.itemsize]
        return next((threads for sweeps, threads in limits if self.sweeps <= sweeps), _FEW)

    def fits(self, device_bytes: int) -> bool:
        """Return whether a multiprocessor has the registers and shared memory for a block."""
        return self.threads <= self._most_threads and self.shared_bytes <= device_bytes

    def with_blocks(self, device_bytes: int) -> RelaxationLayout:
        """Return the layout with as many blocks as fit on a multiprocessor."""
        by_memory = (device_bytes + 1024) // (self.shared_bytes + 1024)
        return replace(self, blocks=max(1, min(by_memory, self._most_threads // self.threads)))


@dataclass(frozen=True)
class RelaxationPartition(StripPartition):
    """Grids of a shape, divided into strips whose bands all have the same tiles."""

    layout: RelaxationLayout

    @property
    def sweeps(self) -> int:
        """Sweeps of a launch: the last one is so many rows behind the rows that a strip reads."""
        return self.layout.sweeps * self.layout.groups

    @property
    def strips(self) -> int:
        """Strips of a grid."""
        return -(-(self.shape[1] + self.sweeps) // (LANES * self.layout.warps))

    @property
    def tiles(self) -> int:
        """Tiles of a band: a thread is two columns behind the one before, a sweep about one."""
        behind = 2 * LANES + self.layout.groups * (self.layout.sweeps + 1)
        return -(-(self.shape[2] + behind) // self.layout.steps)

    @property
    def edge_words(self) -> int:
        """Words of 64 bits with which a strip exports its edge; 0 for a single strip."""
        columns = self.tiles * self.layout.steps - 2 * LANES
        parts = -(-self.layout.dtype.itemsize // 4)
        return 0 if self.layout.is_single_strip else columns * self.sweeps * parts

    def slots(self, device: Device) -> int:
        """Return for how many strips there is memory for edges, which later strips reuse.

        Strips of one grid may reuse it, and need a third as many slots as there are blocks.
        """
        count = self.shape[0] * self.strips
        is_much = count * self.edge_words > MOST_WORDS
        return max(2, -(-self.blocks(device) // 3)) if is_much and self.shape[0] == 1 else count


def choose_partition(
    shape: Shape, dtype: np.dtype[np.floating], sweeps: int, has_rhs: bool, is_checked: bool, device: Device
) -> RelaxationPartition:
    """Return how grids are divided into strips."""
    groups = group_counts(dtype, has_rhs, device.shared_bytes)[sweeps]
    warps = -(-(shape[1] + sweeps) // LANES)
    layout = RelaxationLayout(dtype, sweeps // groups, groups, warps, has_rhs, is_checked)
    if warps * groups > _MOST_WARPS or not layout.fits(device.shared_bytes):
        layout = replace(layout, warps=min(warps, _WARPS))
    while not layout.fits(device.shared_bytes):
        layout = replace(layout, warps=layout.warps - 1)
    is_single_strip = RelaxationPartition(layout, shape).strips == 1
    layout = replace(layout, is_single_strip=is_single_strip)
    return RelaxationPartition(layout.with_blocks(device.shared_bytes), shape)


@lru_cache(maxsize=64)
def group_counts(dtype: np.dtype[np.floating], has_rhs: bool, shared_bytes: int) -> dict[int, int]:
    """Return the possible sweeps of a launch, each with the most groups of two or more sweeps."""
    counts: dict[int, int] = {}
    for sweeps in range(1, _SWEEPS + 1):
        for groups in _GROUPS:
            group_sweeps, remainder = divmod(sweeps, groups)
            layout = RelaxationLayout(dtype, group_sweeps, groups, 1, has_rhs, is_checked=True)
            is_good = remainder == 0 and (group_sweeps > 1 or groups == 1)
            is_good = is_good and group_sweeps <= _OF_GROUP[dtype.itemsize]
            if is_good and layout.fits(shared_bytes):
                counts.setdefault(sweeps, groups)
    return counts


def split_sweeps(sweeps: int, sizes: Collection[int]) -> list[int]:
    """Return the sweeps of each launch: few launches, each of one of `sizes`.

    >>> split_sweeps(45, [1, 2, 4, 8, 10, 16])
    [16, 16, 10, 2, 1]
    """
    parts, largest_first = [], sorted(sizes, reverse=True)
    while sweeps > 0:
        if sweeps in sizes:
            part = sweeps
        elif sweeps < 2 * largest_first[0]:
            pair = (size for size in largest_first if sweeps - size in sizes)
            part = next(pair, next(size for size in largest_first if size < sweeps))
        else:
            part = largest_first[0]
        parts.append(part)
        sweeps -= part
    return parts


def build_launch(partition: RelaxationPartition, device: Device) -> Launch:
    """Return the launch over grids; its struct has five addresses, two weights, and seven sizes."""
    layout = partition.layout
    constants = {
        "STEPS": layout.steps,
        "SWEEPS": layout.sweeps,
        "GROUPS": layout.groups,
        "WARPS": layout.warps,
        "THREADS": layout.threads,
        "SHARED_BYTES": layout.shared_bytes,
        "STAGES": 2,
        "HAS_RHS": layout.has_rhs,
        "IS_CHECKED": layout.is_checked,
        "ALONE": layout.is_single_strip,
    }
    text = print_definitions("", constants, T=layout.dtype)
    text += kernel_text("grids/sor/relaxation")
    return partition.launch(device, text, "relaxation_kernel", "relax", layout.blocks, words=14)


@lru_cache(maxsize=1024)
def prepare_launch(
    shape: Shape, dtype: np.dtype[Any], sweeps: int, has_rhs: bool, is_checked: bool, device_id: int
) -> tuple[RelaxationPartition, PreparedLaunches]:
    """Return how grids are divided into strips, and the launch of sweeps on a device."""
    device = Device.current()
    partition = choose_partition(shape, dtype, sweeps, has_rhs, is_checked, device)
    words = partition.slots(device) * partition.edge_words
    return partition, PreparedLaunches(build_launch(partition, device), units=words)


def determine_relaxation(
    loop: Sweeps, x: Any, rhs: Any, result: Any, remaining: np.ndarray | None = None
) -> np.ndarray:
    """Write the grids of a batch after the sweeps of a loop to `result`, which may be `x`.

    `rhs` may be a scalar in host memory. `remaining` numbers the grids that are swept; the others
    are not written. Return the largest update of each grid in its last sweep; nan for grids that
    are not swept, and if `loop` does not check sweeps.
    """
    import cupy

    shape, updates = x.shape[:-2], np.full(prod(x.shape[:-2]), np.nan)
    if x.size == 0 or min(x.shape[-2:]) < 3:
        result[...] = x
        return np.full(shape, np.nan if loop.tol is None else 0.0)
    if max(x.shape[-2:]) > _MOST:
        raise ValueError(
            f"x must have at most {_MOST} rows and columns on a GPU; got shape {x.shape}: cut it "
            f"into chunks of a Dask array"
        )
    batch = Batch.of(cupy.ascontiguousarray(x), rhs, result)
    if loop.tol is None:
        batch.sweep(loop.omega, loop.sweeps, remaining)
        return updates.reshape(shape)
    raise_if_capturing("sweeps with tol", "the host reads the largest update of every checked sweep")
    remaining = np.arange(updates.size) if remaining is None else remaining
    for sweeps in loop.sweep_counts:
        updates[remaining] = batch.sweep_and_check(loop.omega, sweeps, remaining)
        remaining = remaining[~(updates[remaining] < loop.tol)]
        if remaining.size == 0:
            break
        batch = replace(batch, x=batch.result)
    return updates.reshape(shape)


@dataclass(frozen=True)
class Batch:
    """Grids (..., rows, columns) on a device, and the array of their results, C-contiguous."""

    x: Any
    result: Any
    rhs: Any = None  # of one grid, or of all
    rhs_stride: int = 0  # numbers from one grid to the next

    @staticmethod
    def of(x: Any, rhs: Any, result: Any) -> Batch:
        import cupy

        if rhs is None:
            return Batch(x, result)
        rhs = on_device(rhs)
        if rhs.shape[-2:] == x.shape[-2:] and prod(rhs.shape[:-2]) == 1:
            return Batch(x, result, cupy.ascontiguousarray(rhs))
        rhs = cupy.ascontiguousarray(cupy.broadcast_to(rhs, x.shape))
        return Batch(x, result, rhs, prod(x.shape[-2:]))

    @property
    def count(self) -> int:
        """Number of grids."""
        return prod(self.x.shape[:-2])

    def sweep_and_check(self, omega: float, sweeps: int, remaining: np.ndarray) -> np.ndarray:
        """Sweep some grids, and return the largest update of each in the last sweep."""
        import cupy

        updates = cupy.zeros(remaining.size, np.uint64)
        self.sweep(omega, sweeps, remaining, updates)
        bits = updates.get().astype(f"u{self.x.dtype.itemsize}")
        return np.asarray(bits.view(self.x.dtype))

    def sweep(
        self, omega: float, sweeps: int, remaining: np.ndarray | None = None, updates: Any = None
    ) -> None:
        """Sweep grids; the last launch writes `updates`."""
        import cupy

        indices, count = None, self.count if remaining is None else remaining.size
        if count < self.count:
            indices = cupy.asarray(remaining, dtype=np.int32)
        for step in self.steps(omega, sweeps, count, updates is not None):
            step.raise_if_refused()
            source = self.x if step.is_first else self.result
            addresses = self._addresses(source, indices, updates, step)
            step.prepared((pack_words([*addresses, *step.words]),))

    def steps(self, omega: float, sweeps: int, count: int, is_checked: bool) -> Iterator[_Step]:
        """Yield the launches of sweeps over so many grids, in order."""
        import cupy

        dtype, (rows, columns) = self.x.dtype, self.x.shape[-2:]
        device, device_id = Device.current(), cupy.cuda.runtime.getDevice()
        weights = np.array([1 - omega, omega / 4], dtype).astype(np.float64).view(np.int64)
        has_rhs, done = self.rhs is not None, 0
        for part in split_sweeps(sweeps, group_counts(dtype, has_rhs, device.shared_bytes)):
            is_last = is_checked and done + part == sweeps
            signature = dtype, part, has_rhs, is_last, device_id
            partition, _ = prepare_launch((count, rows, columns), *signature)
            edge_words = partition.edge_words
            for start, size in _split_batch(count, edge_words, partition.strips):
                partition, prepared = prepare_launch((size, rows, columns), *signature)
                words = [*weights.tolist(), self.rhs_stride, *partition.shape, partition.strips]
                words += [partition.tiles, partition.slots(device)]
                refused = (rows, part) if edge_words else None
                yield _Step(prepared, words, start, done == 0, is_last, refused)
            done += part

    def _addresses(self, x: Any, indices: Any, updates: Any, step: _Step) -> Iterator[int]:
        """Yield addresses for the grids of a launch, which `indices` may number."""
        first, size = (step.start if indices is None else 0), x.dtype.itemsize
        stride = prod(x.shape[-2:])
        for array, offset in (
            (x, first * stride * size),
            (self.rhs, first * self.rhs_stride * size),
            (self.result, first * stride * size),
            (updates if step.is_checked else None, step.start * 8),
            (indices, step.start * 4),
        ):
            yield 0 if array is None else array.data.ptr + offset


@dataclass(frozen=True)
class _Step:
    """A launch over some grids, from number `start` on."""

    prepared: PreparedLaunches
    words: list[int]  # of the kernel's struct, after the addresses
    start: int
    is_first: bool  # whether it reads x
    is_checked: bool
    refused: tuple[int, int] | None  # rows and sweeps, if strips exchange edges

    def raise_if_refused(self) -> None:
        """Raise if a launch whose strips exchange edges is captured."""
        if self.refused:
            name = "sweeps over grids of {} rows, {} at a time,".format(*self.refused)
            raise_if_capturing(name, "every launch needs a number of its own")


def _split_batch(count: int, edge_words: int, strips: int) -> Iterator[tuple[int, int]]:
    """Yield the first grid and the number of grids of every launch."""
    most = max(1, min(_MOST, MOST_WORDS // max(edge_words, 1)) // strips)
    for start in range(0, count, most):
        yield start, min(most, count - start)


def prepare_relaxation(
    loop: Sweeps, grids: Sequence[Any], carry_in: None, results: Sequence[Any]
) -> PreparedSolver | None:
    """Return a solver for other grids of the same shape and dtype.

    None if sweeps are checked, nothing is swept, the right-hand side, which may follow x, needs a
    copy, or a sweep needs several launches.
    """
    x, *rhs = grids
    (result,) = results
    if loop.tol is not None or min(x.shape[-2:]) < 3 or max(x.shape[-2:]) > _MOST:
        return None
    batch = Batch.of(x, rhs[0] if rhs else None, result)
    has_rhs = bool(rhs)
    if has_rhs and (backend_of(rhs[0]) is CPU or not is_uncopied(batch.rhs, rhs[0])):
        return None
    steps = list(batch.steps(loop.omega, loop.sweeps, batch.count, is_checked=False))
    if any(step.start for step in steps):
        return None
    bound = [(step, LaunchByAddress(step.prepared)) for step in steps]

    def solve(operands: Sequence[int], results: Sequence[int]) -> None:
        source, target = operands[0], results[0]
        for step, launch in bound:
            step.raise_if_refused()
            launch([[source, operands[1] if has_rhs else 0, target, 0, 0, *step.words]])
            source = target

    return solve


def lay_out_grids(grids: Any, rhs: Any = None) -> DeviceGrids:
    """Return contiguous grids (..., rows, columns) and their right-hand sides as they are."""
    return DeviceGrids(grids, rhs, grids.shape)


class DeviceGrids(LaidOutGrids):
    """Tiles of Dask arrays: a batch of contiguous grids that stay on the device between sweeps."""

    def index(self, is_row: bool, k: int, part: slice) -> tuple[Any, ...]:
        return (..., k, part) if is_row else (..., part, k)

    def sweep(
        self, loop: Sweeps, borders: Sequence[Any], inside: tuple[slice, slice], done: Any
    ) -> tuple[DeviceGrids, np.ndarray]:
        import cupy

        remaining = None if done is None else np.flatnonzero(~done)
        with self.values.device:
            # Tasks must not write to their arguments.
            swept = DeviceGrids(self.values.copy(), self.rhs, self.shape)
            borders = [None if border is None else cupy.asarray(border) for border in borders]
            swept.write_borders(borders, inside)
            updates = determine_relaxation(loop, swept.values, self.rhs, swept.values, remaining)
        return swept, updates

    def to_array(self) -> Any:
        return self.values
