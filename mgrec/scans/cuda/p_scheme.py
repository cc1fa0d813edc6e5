"""P-scheme/G on one GPU: precompute, propagate and determine as separate kernels.

Its constants and configurations are measured on the current device.

Rows are divided into parts. In rearranged order neighbouring threads read neighbouring addresses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from statistics import median
from typing import Any

import numpy as np

from ...core.algebra.fingerprint import StepFunction
from ...core.algebra.transfer_map import TransferMap, affine
from ...core.arrays.chunk import Chunk, CoefficientOperand
from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.device import Device, reserve_descriptors
from ...engines.cuda.launches import EPOCH, SPACE, Launch, run_launches
from ..policy import MOST_THREADS, Configuration, Constants, Measurement, choose_configuration
from .program import ScanLayout, Source, describe, print_program

_SIDE = 32
_LONG = 256
"""Steps from which a part is a whole number of tiles, so that every part starts aligned."""
_WIDE = 1024
"""Parts from which a rearranged row is a whole number of tiles, to start aligned."""
_THREADS = 256
_WORDS = {
    1: "unsigned char",
    2: "unsigned short",
    4: "unsigned int",
    8: "unsigned long long",
    16: "ulonglong2",
}
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
class RowPartition:
    """Rows of a chunk of some `shape`, divided into `per_row` parts of `length` steps.

    The last part of a row may be shorter.
    """

    shape: tuple[int, int, int]
    length: int
    per_row: int

    @staticmethod
    def of(shape: tuple[int, int, int], processors: int) -> RowPartition:
        """Divide rows among processors; rows stay whole if there are as many as processors."""
        outers, steps, inners = shape
        length = -(-steps // max(1, processors // (outers * inners)))
        if length >= _LONG:
            length = -(-length // _SIDE) * _SIDE
        return RowPartition(shape, length, -(-steps // length))

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
    return prelude + kernel_text("scans/cuda/p_scheme/parts") + _REARRANGE_KERNELS


def rearrange(array: Any, partition: RowPartition, out: Any, *, reverse: bool = False) -> None:
    """Write an array (outer, steps, 1) of contiguous rows to `out` in rearranged order.

    Step j of part p is element (j + 1, p) of `out` (length + 1, stride). Row 0 repeats the last
    element, in time, of the part before. Other elements are not written: row 0 of a row's first
    part, and those past the end of a row.
    """
    _transpose("rearrange_kernel", partition, array, out, *partition.sizes(), np.bool_(reverse))


def restore(rearranged: Any, partition: RowPartition, out: Any) -> None:
    """Write a rearranged array to `out` in natural order: the inverse of :func:`rearrange`."""
    _transpose("restore_kernel", partition, rearranged, out, *partition.sizes())


def _transpose(name: str, partition: RowPartition, *arguments: Any) -> None:
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


def choose_layout(chunk: Chunk, source: Source, threads: int, *, guarded: bool) -> ScanLayout:
    """Choose the number of steps that a thread loads at once.

    T is no constant of a program: one that is compiled for the most threads runs with fewer.
    """
    most = next(most for most in _REGISTERS if threads <= most)
    words = (source.varying + 1) * max(chunk.dtype.itemsize // 4, 1)
    items = max(1, _REGISTERS[most] // words)
    return ScanLayout(most, items, reverse=chunk.reverse, guarded=guarded)


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
        self,
        transfer_map: TransferMap,
        chunk: Chunk,
        carry_in: tuple[Any, ...],
        results: tuple[Any, ...],
        configuration: Configuration | None = None,
        *,
        is_rearranged: bool = True,
    ) -> None:
        import cupy

        self.chunk, self.carry_in, self.results = chunk, carry_in, results
        self.source = source = describe(chunk)
        self.guarded = transfer_map.redoes_rows_of(chunk.dtype)
        configuration = configuration or default_configuration(chunk, source, Device.current())
        layout = choose_layout(chunk, source, configuration.threads, guarded=self.guarded)
        kernels = ("scans/cuda/p_scheme/phases",)
        self.text = print_program(transfer_map, len(carry_in), source, layout, kernels, _KERNELS)
        self.configuration = configuration
        self.partition = partition = RowPartition.of(chunk.shape, configuration.processors)
        self.is_rearranged = is_rearranged and chunk.shape[2] == 1
        self.sizes = partition.sizes(is_rearranged=self.is_rearranged)
        self.maps = cupy.empty((len(transfer_map.identity), partition.count), chunk.dtype)
        shape = partition.rearranged_shape if self.is_rearranged else (1, partition.count)
        self.states = [cupy.empty(shape, chunk.dtype) for _ in carry_in]
        self.operands = [cupy.empty(shape if self.is_rearranged else 0, x.dtype) for x in source.streams]
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


_STEPS = 2**25
"""Steps of a measurement of the constants: beyond any cache, in less than 1 GB."""
_FEW, _MANY = 32, (128, 256, 512)
"""Threads of a block that only wait for memory, and that saturate it."""
_REPEATS, _IN_A_ROW = 3, 4
SPIN = """
extern "C" __global__ void spin_kernel(long long cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {}
}
"""
_CYCLES = 1_500_000


def light_coefficient(i: Any) -> Any:
    """Return the coefficient of case L of the papers, a few operations a step."""
    return 0.9 - 1e-9 * i


def require_device() -> int:
    """Return the number of the current device; raise RuntimeError without CuPy or a GPU."""
    try:
        import cupy
    except ImportError:
        raise RuntimeError("P-scheme/G is measured on a GPU; CuPy is not installed") from None
    if not cupy.is_available():
        raise RuntimeError("P-scheme/G is measured on a GPU; CuPy finds none")
    return int(cupy.cuda.runtime.getDevice())


def name_device() -> str:
    """Return the name of the current device."""
    import cupy

    return str(cupy.cuda.runtime.getDeviceProperties(require_device())["name"].decode())


def seconds_of(call: Callable[[], Any]) -> float:
    """Return the seconds of a call on the device: the median over runs of several calls.

    The device is busy until all calls are queued, so that the launch time of the host does not
    count.
    """
    import cupy

    call()
    spin = Launch(SPIN, "spin_kernel", 1, 1, (np.int64(_CYCLES),))
    times = []
    for _ in range(_REPEATS):
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        run_launches(spin)
        start.record()
        for _ in range(_IN_A_ROW):
            call()
        stop.record()
        stop.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, stop) * 1e-3 / _IN_A_ROW)
    return median(times)


def copy_bandwidth() -> float:
    """Return the bytes that a copy on the device reads and writes in a second."""
    import cupy

    source = cupy.full(2**28, 7, cupy.uint8)
    target = cupy.empty_like(source)
    size = source.nbytes
    return 2 * size / seconds_of(lambda: target.data.copy_from_device_async(source.data, size))


def build(steps: int, dtype: np.dtype[Any], coefficient: str) -> tuple[Chunk, Any, Any]:
    """Return a chunk of w = s·w + t with coefficients of a kind, its carry-in and its results."""
    import cupy

    shape = (1, steps, 1)
    t = (cupy.arange(steps) % 13).astype(dtype).reshape(shape)
    operands: dict[str, Callable[[], Any]] = {
        "arrays": lambda: (1 / (2 + cupy.arange(steps, dtype="f4") % 7)).astype(dtype),
        "constant": lambda: cupy.full(1, 0.5).astype(dtype),
        "computed": lambda: CoefficientOperand(StepFunction(light_coefficient), 0),
    }
    s = operands[coefficient]()
    s = s if isinstance(s, CoefficientOperand) else s.reshape(1, -1, 1)
    return Chunk((s, t), shape, dtype), (cupy.ones((1, 1), dtype),), (cupy.empty(shape, dtype),)


def measure(dtype: np.dtype[Any], coefficient: str) -> Constants:
    """Measure alpha, beta, gamma and the floor, once for each process and device."""
    return _measure(dtype, coefficient, require_device())


@cache
def _measure(dtype: np.dtype[Any], coefficient: str, device: int) -> Constants:
    multiprocessors = Device.current().multiprocessors
    chunk, carry_in, results = build(_STEPS, dtype, coefficient)

    def phases_of(threads: int) -> tuple[Phases, float, float]:
        configuration = Configuration(multiprocessors, threads)
        phases = Phases(affine, chunk, carry_in, results, configuration)
        phases.rearrange()
        return phases, seconds_of(phases.precompute), seconds_of(phases.determine)

    few, alpha, gamma = phases_of(_FEW)
    per_step = few.partition.count / _STEPS
    saturated = [phases_of(threads) for threads in _MANY]
    many = saturated[-1][0]
    return Constants(
        alpha * per_step,
        seconds_of(many.propagate) / many.partition.count,
        gamma * per_step,
        min(first + second for _, first, second in saturated) / _STEPS,
    )


def choose(steps: int, constants: Constants) -> Configuration:
    """Choose G and T for one row on the current device."""
    return choose_configuration(steps, constants, Device.current().multiprocessors)


def configurations(steps: int) -> list[Configuration]:
    """Return configurations: G from 1/2 to 4 times the multiprocessors, T from 32 to 1,024."""
    multiprocessors = Device.current().multiprocessors
    blocks = [max(1, multiprocessors // 2), *(multiprocessors * k for k in (1, 2, 4))]
    threads = (32, 64, 128, 256, 512, 1024)
    fitting = [Configuration(g, t) for g, t in product(blocks, threads) if g * t <= steps]
    return fitting or [Configuration(1, 32)]


def sweep(
    steps: int, dtype: np.dtype[Any], coefficient: str, chosen: Configuration
) -> tuple[Measurement, ...]:
    """Measure the chosen configuration, then all others."""
    require_device()
    chunk, carry_in, results = build(steps, dtype, coefficient)
    measurements = []
    for configuration in dict.fromkeys([chosen, *configurations(steps)]):
        phases = Phases(affine, chunk, carry_in, results, configuration)
        whole = seconds_of(phases)
        measurements.append(Measurement(configuration, seconds_of(phases.solve_rearranged), whole))
    return tuple(measurements)
