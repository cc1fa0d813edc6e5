"""P-scheme/G on one GPU: precompute, propagate and determine as kernels of their own."""

from __future__ import annotations

from typing import Any

from ....core.algebra.transfer_map import TransferMap
from ....core.arrays.chunk import Chunk
from ....engines.cuda.device import Device, reserve_descriptors
from ....engines.cuda.launches import EPOCH, SPACE, Launch, run_launches
from ...policy import (
    MOST_THREADS,
    Configuration,
    Constants,
    choose_configuration,
)
from ..program import Layout, print_program
from ..sources import Source, describe
from .rearrangement import Partition, rearrange, restore

_REGISTERS = {512: 48, MOST_THREADS: 24}
"""A thread's, for operands and results of the steps that it asks for at once, by the most threads
of a block: it has 128 or 64 in all."""
_ROW_THREADS = 64
"""Threads of a block that propagates or repairs."""
_CONSTANTS = {
    ("arrays", False): Constants(6.43e-8, 3.51e-8, 5.16e-8, 7.12e-12),
    ("arrays", True): Constants(1.24e-7, 4.10e-8, 9.34e-8, 1.37e-11),
    ("constant", False): Constants(4.44e-8, 3.51e-8, 3.44e-8, 4.57e-12),
    ("constant", True): Constants(7.59e-8, 4.10e-8, 7.71e-8, 8.61e-12),
    ("computed", False): Constants(3.13e-7, 3.51e-8, 3.95e-8, 8.03e-12),
    ("computed", True): Constants(3.82e-7, 4.10e-8, 6.45e-8, 1.19e-11),
}
"""By the kind of the operands and whether a number has 8 bytes or more."""

_ENTRIES = """
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
  repair(source, entry, results, *reinterpret_cast<const Marks*>(space), outers, steps, inners, 1,
         epoch);
}}
"""


def choose_layout(chunk: Chunk, source: Source, threads: int, *, guarded: bool) -> Layout:
    """Choose how many steps a thread asks for at once, and fix what the kernels need not know.

    T is no constant of a program: one that is compiled for the most threads runs with fewer.
    """
    most = next(most for most in _REGISTERS if threads <= most)
    words = (source.varying + 1) * max(chunk.dtype.itemsize // 4, 1)
    items = max(1, _REGISTERS[most] // words)
    return Layout(most, items, reverse=chunk.reverse, guarded=guarded)


def default_configuration(chunk: Chunk, source: Source, device: Device) -> Configuration:
    """Choose G and T by the policy, with constants that were measured once, on an H100.

    Not measured here and now: the order of the arithmetic, and so the last bits of a
    result, must not depend on timing. :func:`mgrec.tuning.measure` does that.
    """
    kind = "computed" if source.functions else "arrays" if len(source.streams) > 1 else "constant"
    constants = _CONSTANTS[kind, chunk.dtype.itemsize >= 8]
    rows = chunk.shape[0] * chunk.shape[2]
    return choose_configuration(rows * chunk.steps, constants, device.multiprocessors, rows)


def print_p_scheme(transfer_map: TransferMap, source: Source, states: int, layout: Layout) -> str:
    """Print the program of the three phases and of the repair."""
    kernels = ("scans/cuda/p_scheme/phases",)
    return print_program(transfer_map, states, source, layout, kernels, _ENTRIES)


class Phases:
    """The launches of one solution, and the workspace that they share.

    Calling it solves: from operands in natural order to results in natural order.

    Parameters
    ----------
    transfer_map : TransferMap
    chunk : Chunk
        Of CuPy arrays, with at least one step and row.
    carry_in : tuple of arrays (outer, inner)
    results : tuple of arrays (outer, steps, inner)
    configuration : Configuration, optional
        G and T; see :func:`default_configuration`.
    is_rearranged : bool, optional
        Whether contiguous rows are brought into rearranged order; in natural order the
        threads of a warp read far from each other. Rows along a slow axis never are.
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
        """The three phases alone, over operands that are rearranged already."""
        self.precompute()
        self.propagate()
        self.determine()

    def rearrange(self) -> None:
        """Bring the operands into rearranged order."""
        if self.is_rearranged:
            for x, out in zip(self.source.streams, self.operands, strict=True):
                rearrange(x, self.partition, reverse=self.chunk.reverse, out=out)

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
        """Walk every part from its carry-in."""
        carried = self._carried if self._carries else self.carry_in
        targets = [w[1:] for w in self.states] if self.is_rearranged else self.results
        self._run("determine_kernel", *self._streams, *self.source.arguments, *carried, *targets)

    def restore(self) -> None:
        """Bring the results into natural order."""
        if self.is_rearranged:
            for w, out in zip(self.states, self.results, strict=True):
                restore(w, self.partition, out=out)

    def repair(self) -> None:
        """Redo, by the loop itself, the steps that the propagation has marked."""
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
        # A warp a row propagates, a thread a row repairs, and both know the launch by its marks.
        lanes = {"propagate_kernel": 32, "repair_kernel": 1}.get(name)
        if lanes:
            rows = self.chunk.shape[0] * self.chunk.shape[2]
            threads, blocks = _ROW_THREADS, -(-rows * lanes // _ROW_THREADS)
            arguments = (*arrays, SPACE, *self.sizes, EPOCH)
        is_fused = name != "repair_kernel"
        launch = Launch(self.text, name, blocks, threads, arguments, is_fused=is_fused)
        run_launches(launch, values=self.marks)


def determine(
    transfer_map: TransferMap,
    chunk: Chunk,
    carry_in: tuple[Any, ...],
    configuration: Configuration | None = None,
) -> tuple[Any, ...]:
    """Compute the states of all steps from the states before the first, by P-scheme/G.

    Parameters
    ----------
    transfer_map : TransferMap
    chunk : Chunk
        Of CuPy arrays on the current device.
    carry_in : tuple of CuPy arrays (outer, inner)
    configuration : Configuration, optional
        G blocks of T threads. When not given, chosen by the policy from the shape, the dtype,
        the kind of the operands and the device's number of multiprocessors.

    Returns
    -------
    tuple of CuPy arrays (outer, steps, inner)
        One a component of the state.

    Notes
    -----
    Every row is cut into parts, P = G·T in all, a thread a part; rows are as many parts where
    they are more. Contiguous rows are transposed into rearranged arrays of N + P elements
    first, and the results back: with coefficient arrays 11 words a step cross the memory
    bus, 5 of them in the three phases, against 3 of the single pass.

    The order of the arithmetic depends on shape, dtype and configuration, never on timing:
    two runs give the same bits.

    For w = s·w + t in floating point, nan and inf stand where the plain loop has them, as in
    :mod:`mgrec.scans.cuda.determine`: the papers' scheme alone gives nan where a
    part's product overflows and meets a state of 0. A part whose carry-in cannot be trusted is done
    again by the loop, and what follows it until the results agree.

    References
    ----------
    A. Wakatani's papers on the P-scheme (2004) and P-scheme/G (2012, 2013).
    """
    import cupy

    results = tuple(cupy.empty(chunk.shape, chunk.dtype) for _ in carry_in)
    if results[0].size:
        Phases(transfer_map, chunk, carry_in, results, configuration)()
    return results
