"""Measurements of P-scheme/G on the current device: its constants, and its configurations."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from statistics import median
from typing import Any

import numpy as np

from ...core.algebra.fingerprint import StepFunction
from ...core.algebra.transfer_map import affine
from ...core.arrays.chunk import Chunk, CoefficientOperand
from ...engines.cuda.device import Device
from ...engines.cuda.launches import Launch, run_launches
from ..policy import Configuration, Constants, Measurement, choose_configuration
from .p_scheme import Phases

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


def build(steps: int, dtype: np.dtype[Any], kind: str) -> tuple[Chunk, Any, Any]:
    """Return a chunk of w = s·w + t with coefficients of a kind, its carry-in and its results."""
    import cupy

    shape = (1, steps, 1)
    t = (cupy.arange(steps) % 13).astype(dtype).reshape(shape)
    operands: dict[str, Callable[[], Any]] = {
        "arrays": lambda: (1 / (2 + cupy.arange(steps, dtype="f4") % 7)).astype(dtype),
        "constant": lambda: cupy.full(1, 0.5).astype(dtype),
        "computed": lambda: CoefficientOperand(StepFunction(light_coefficient), 0),
    }
    s = operands[kind]()
    s = s if isinstance(s, CoefficientOperand) else s.reshape(1, -1, 1)
    return Chunk((s, t), shape, dtype), (cupy.ones((1, 1), dtype),), (cupy.empty(shape, dtype),)


def measure(dtype: np.dtype[Any], kind: str) -> Constants:
    """Measure alpha, beta, gamma and the floor, once for each process and device."""
    return _measure(dtype, kind, require_device())


@cache
def _measure(dtype: np.dtype[Any], kind: str, device: int) -> Constants:
    multiprocessors = Device.current().multiprocessors
    chunk, carry_in, results = build(_STEPS, dtype, kind)

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
    steps: int, dtype: np.dtype[Any], kind: str, chosen: Configuration
) -> tuple[Measurement, ...]:
    """Measure the chosen configuration, then all others."""
    require_device()
    chunk, carry_in, results = build(steps, dtype, kind)
    measurements = []
    for configuration in dict.fromkeys([chosen, *configurations(steps)]):
        phases = Phases(affine, chunk, carry_in, results, configuration)
        whole = seconds_of(phases)
        measurements.append(Measurement(configuration, seconds_of(phases.solve_rearranged), whole))
    return tuple(measurements)
