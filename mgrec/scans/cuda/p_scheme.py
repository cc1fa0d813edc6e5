"""P-scheme/G on one GPU: precompute, propagate and determine as separate kernels.

Rows are divided into parts. In rearranged order neighbouring threads read neighbouring addresses.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ...core.algebra.transfer_map import TransferMap
from ...core.arrays.chunk import Chunk
from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.device import Device, reserve_descriptors
from ...engines.cuda.launches import EPOCH, SPACE, Launch, run_launches
from ..policy import MOST_THREADS, Configuration, Constants, choose_configuration
from .program import Layout, print_program
from .sources import Source, describe

_SIDE = 32
_LONG = 256
"""Steps from which a part is a whole number of tiles, so that every part starts aligned."""
_WIDE = 1024
"""Parts from which a rearranged row is a whole number of tiles, to start aligned."""
_THREADS = 256
_WORDS = {
    1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long",
    16: "ulonglong2",
}  # fmt: skip
_REARRANGE_KERNELS = """
#define PARTS const Parts parts = {outers, steps, inners, length, per_row, stride}
extern "C" __global__ void rearrange_kernel(const Word* natural, Word* rearranged, long long outers,
    long long steps, long long inners, long long length, long long per_row, long long stride,
    bool reverse) {
  PARTS;
  rearrange(natural, rearranged, parts, reverse);
}
extern "C" __global__ void restore_kernel(const Word* rearranged, Word* natural, long long outers,
    long long steps, long long inners, long long length, long long per_row, long long stride) {
  PARTS;
  restore(rearranged, natural, parts);
}
"""


@dataclass(frozen=True)
class Partition:
    """Rows of a chunk of some `shape`, divided into `per_row` parts of `length` steps.

    The last part of a row may be shorter.
    """

    shape: tuple[int, int, int]
    length: int
    per_row: int

    @staticmethod
    def of(shape: tuple[int, int, int], processors: int) -> Partition:
        """Divide rows among processors; rows stay whole if there are as many as processors."""
        outers, steps, inners = shape
        length = -(-steps // max(1, processors // (outers * inners)))
        if length >= _LONG:
            length = -(-length // _SIDE) * _SIDE
        return Partition(shape, length, -(-steps // length))

    @property
    def count(self) -> int:
        outers, _, inners = self.shape
        return outers * self.per_row * inners

    @property
    def stride(self) -> int:
        """Elements of a row in rearranged order: all parts, and padding."""
        return self.count if self.count < _WIDE else -(-self.count // _SIDE) * _SIDE

    @property
    def rearranged_shape(self) -> tuple[int, int]:
        """(length + 1, stride): with whole parts N + P elements."""
        return self.length + 1, self.stride

    @property
    def tiles(self) -> int:
        """Number of blocks of the transposition."""
        return -(-self.count // _SIDE) * -(-self.length // _SIDE)

    def sizes(self, *, is_rearranged: bool = True) -> tuple[Any, ...]:
        """Return the arguments of ``struct Parts``."""
        stride = self.stride if is_rearranged else 0
        return tuple(map(np.int64, (*self.shape, self.length, self.per_row, stride)))


@cache
def print_rearrangement(itemsize: int) -> str:
    """Print the program of the transpositions, which move words of any dtype."""
    prelude = f"#define DEVICE __device__\ntypedef {_WORDS[itemsize]} Word;\n"
    return prelude + kernel_text("scans/cuda/p_scheme/rearrange") + _REARRANGE_KERNELS


def rearrange(array: Any, partition: Partition, out: Any, *, reverse: bool = False) -> None:
    """Write an array (outer, steps, 1) of contiguous rows to `out` in rearranged order.

    Step j of part p is element (j + 1, p) of `out` (length + 1, stride). Row 0 repeats the last
    element, in time, of the part before. Other elements are not written: row 0 of a row's first
    part, and those past the end of a row.
    """
    _transpose("rearrange_kernel", partition, array, out, *partition.sizes(), np.bool_(reverse))


def restore(rearranged: Any, partition: Partition, out: Any) -> None:
    """Write a rearranged array to `out` in natural order: the inverse of :func:`rearrange`."""
    _transpose("restore_kernel", partition, rearranged, out, *partition.sizes())


def _transpose(name: str, partition: Partition, *arguments: Any) -> None:
    text = print_rearrangement(arguments[0].itemsize)
    run_launches(Launch(text, name, partition.tiles, _THREADS, arguments))


_REGISTERS = {512: 48, MOST_THREADS: 24}
"""Registers of a thread for operands and results of the steps that it loads at once, for the most
threads of a block: a thread has 128 or 64 in all."""
_ROW_THREADS = 64
"""Threads of a block of the propagation or the repair."""
_CONSTANTS = {
    ("arrays", False): Constants(6.43e-8, 3.51e-8, 5.16e-8, 7.12e-12),
    ("arrays", True): Constants(1.24e-7, 4.10e-8, 9.34e-8, 1.37e-11),
    ("constant", False): Constants(4.44e-8, 3.51e-8, 3.44e-8, 4.57e-12),
    ("constant", True): Constants(7.59e-8, 4.10e-8, 7.71e-8, 8.61e-12),
    ("computed", False): Constants(3.13e-7, 3.51e-8, 3.95e-8, 8.03e-12),
    ("computed", True): Constants(3.82e-7, 4.10e-8, 6.45e-8, 1.19e-11),
}
"""Constants by the form of the coefficients and whether a number has 8 bytes or more."""

_KERNELS = """
#define SIZES long long outers, long long steps, long long inners, long long length, \\
  long long per_row, long long stride
#define PARTS const Parts parts = {{outers, steps, inners, length, per_row, stride}}
#define SOURCE const Source source = {{{fills}}}
#define ENTRY const Entry entry = {{{entry}}}
#define RESULTS T* const results[] = {{{result}}}
extern "C" __global__ void __launch_bounds__(THREADS) precompute_kernel(
    {operands}{map_out}, SIZES) {{
  PARTS; SOURCE;
  T* const maps[] = {{{map}}};
  precompute_parts(source, maps, parts);
}}
extern "C" __global__ void propagate_kernel(
    {map_in}, {entry_in}, {result_out}, Unit* space, SIZES, unsigned epoch) {{
  PARTS; ENTRY; RESULTS;
  const T* const maps[] = {{{map}}};
  propagate_parts(maps, entry, results, *reinterpret_cast<Marks*>(space), parts, epoch);
}}
extern "C" __global__ void __launch_bounds__(THREADS) determine_kernel(
    {parameters}, SIZES) {{
  PARTS; SOURCE; ENTRY; RESULTS;
  determine_parts(source, entry, results, parts);
}}
extern "C" __global__ void repair_kernel(
    {parameters}, Unit* space, SIZES, unsigned epoch) {{
  SOURCE; ENTRY; RESULTS;
  repair(source, entry, results, *reinterpret_cast<const Marks*>(space), outers, steps, inners,
         epoch);
}}
"""


def choose_layout(chunk: Chunk, source: Source, threads: int, *, guarded: bool) -> Layout:
    """Choose the number of steps that a thread loads at once.

    T is no constant of a program: one that is compiled for the most threads runs with fewer.
    """
    most = next(most for most in _REGISTERS if threads <= most)
    words = (source.varying + 1) * max(chunk.dtype.itemsize // 4, 1)
    items = max(1, _REGISTERS[most] // words)
    return Layout(most, items, reverse=chunk.reverse, guarded=guarded)


def default_configuration(chunk: Chunk, source: Source, device: Device) -> Configuration:
    """Choose G and T by the policy, with constants that were measured once, on an H100.

    The order of the arithmetic, and so the last bits of a result, must not depend on timing.
    :func:`mgrec.tuning.measure` measures the constants of the current device.
    """
    has_arrays = len(source.streams) > 1
    form = "computed" if source.functions else "arrays" if has_arrays else "constant"
    constants = _CONSTANTS[form, chunk.dtype.itemsize >= 8]
    rows = chunk.shape[0] * chunk.shape[2]
    return choose_configuration(rows * chunk.steps, constants, device.multiprocessors, rows)


def print_p_scheme(transfer_map: TransferMap, source: Source, states: int, layout: Layout) -> str:
    """Print the program of the three phases and of the repair."""
    kernels = ("scans/cuda/p_scheme/phases",)
    return print_program(transfer_map, states, source, layout, kernels, _KERNELS)


class Phases:
    """The launches of one solution, and their workspace.

    A call solves, from operands in natural order to results in natural order: arrays (outer, steps,
    inner). The chunk has CuPy arrays, with at least one step and row, and the carry-in arrays
    (outer, inner). The default configuration is that of :func:`default_configuration`. Contiguous
    rows are rearranged unless `is_rearranged` is False; in natural order the threads of a warp read
    distant addresses. Columns are never rearranged.

    Rows are divided into parts, P = G·T in all, one for each thread; more rows than P are one part
    each. Contiguous rows are first transposed into rearranged arrays of N + P elements, and the
    results back: with coefficient arrays 11 words a step cross the memory bus, 5 of them in the
    three phases, against 3 of the single pass.

    The order of the arithmetic depends on shape, dtype and configuration, not on timing: two runs
    give the same bits.

    For w = s·w + t in floating point, nan and inf occur where the plain loop has them, as in
    :mod:`mgrec.scans.cuda.determine`. The papers' scheme alone gives nan if the product of a part
    overflows and meets a state of 0. The loop solves a part with a suspect carry-in, and the steps
    after it until the results agree.
    """

    def __init__(
        self, transfer_map: TransferMap, chunk: Chunk, carry_in: tuple[Any, ...],
        results: tuple[Any, ...], configuration: Configuration | None = None, *,
        is_rearranged: bool = True,
    ) -> None:  # fmt: skip
        import cupy

        self.chunk, self.carry_in, self.results = chunk, carry_in, results
        self.source = source = describe(chunk)
        self.guarded = transfer_map.redoes_rows_of(chunk.dtype)
        configuration = configuration or default_configuration(chunk, source, Device.current())
        layout = choose_layout(chunk, source, configuration.threads, guarded=self.guarded)
        self.text = print_p_scheme(transfer_map, source, len(carry_in), layout)
        self.configuration = configuration
        self.partition = partition = Partition.of(chunk.shape, configuration.processors)
        self.is_rearranged = is_rearranged and chunk.shape[2] == 1
        self.sizes = partition.sizes(is_rearranged=self.is_rearranged)
        self.maps = cupy.empty((len(transfer_map.identity), partition.count), chunk.dtype)
        shape = partition.rearranged_shape if self.is_rearranged else (1, partition.count)
        self.states = [cupy.empty(shape, chunk.dtype) for _ in carry_in]
        self.operands = [
            cupy.empty(shape if self.is_rearranged else 0, x.dtype) for x in source.streams
        ]
        self.marks: tuple[Any, ...] = ()

    def __call__(self) -> None:
        self.rearrange()
        self.solve_rearranged()
        self.restore()
        self.repair()

    def solve_rearranged(self) -> None:
        """Run the three phases on rearranged operands."""
        self.precompute()
        self.propagate()
        self.determine()

    def rearrange(self) -> None:
        """Rearrange the operands."""
        if self.is_rearranged:
            for x, out in zip(self.source.streams, self.operands, strict=True):
                rearrange(x, self.partition, out, reverse=self.chunk.reverse)

    def precompute(self) -> None:
        """Compose every part to one map."""
        if self._carries:
            self._run("precompute_kernel", *self._streams, *self.source.arguments, *self.maps)

    def propagate(self) -> None:
        """Carry the state from part to part."""
        if self._carries:
            self.marks = reserve_descriptors(2)
            self._run("propagate_kernel", *self.maps, *self.carry_in, *self._carried)

    def determine(self) -> None:
        """Determine every part from its carry-in."""
        carried = self._carried if self._carries else self.carry_in
        targets = [w[1:] for w in self.states] if self.is_rearranged else self.results
        self._run("determine_kernel", *self._streams, *self.source.arguments, *carried, *targets)

    def restore(self) -> None:
        """Write the results in natural order."""
        if self.is_rearranged:
            for w, out in zip(self.states, self.results, strict=True):
                restore(w, self.partition, out)

    def repair(self) -> None:
        """Solve the steps that the propagation has marked by the plain loop."""
        if self._carries and self.guarded:
            operands = (*self.source.streams, *self.source.arguments)
            self._run("repair_kernel", *operands, *self.carry_in, *self.results)

    @property
    def _carries(self) -> bool:
        return self.partition.per_row > 1

    @property
    def _streams(self) -> list[Any]:
        return [x[1:] for x in self.operands] if self.is_rearranged else self.source.streams

    @property
    def _carried(self) -> list[Any]:
        return [w[0] for w in self.states]

    def _run(self, name: str, *arrays: Any) -> None:
        threads = self.configuration.threads
        blocks = min(self.configuration.blocks, -(-self.partition.count // threads))
        arguments = (*arrays, *self.sizes)
        # A warp propagates a row, a thread repairs one. Both identify the launch by its marks.
        lanes = {"propagate_kernel": 32, "repair_kernel": 1}.get(name)
        if lanes:
            rows = self.chunk.shape[0] * self.chunk.shape[2]
            threads, blocks = _ROW_THREADS, -(-rows * lanes // _ROW_THREADS)
            arguments = (*arrays, SPACE, *self.sizes, EPOCH)
        is_fused = name != "repair_kernel"
        launch = Launch(self.text, name, blocks, threads, arguments, is_fused=is_fused)
        run_launches(launch, values=self.marks)
