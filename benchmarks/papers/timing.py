"""Calls of NumPy or CuPy arrays that are checked before they are timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..harness.clock import Call, Clock, device_clock, flush_cache, host_clock
from ..harness.command import Options
from ..harness.study import Study

REPETITIONS, TOLERANCE = 3, 1e-5
OPTIONS: Options = {"--cpu": {"action": "store_true", "help": "small sizes of NumPy arrays, no GPU"}}


@dataclass(frozen=True)
class Machine:
    """How calls are timed, and by which clock those are that have streams of their own."""

    settle: Call | None = None
    clock: Clock | None = None
    host_clock: Clock | None = None


HOST, GPU = Machine(), Machine(flush_cache, device_clock, host_clock)


def on_cpu_or_gpu(on_cpu: Callable[[Study], None], on_gpu: Callable[[Study], None]) -> Any:
    """Return the measurement of a study at small sizes without a GPU, or at those of the paper."""

    def measure(study: Study, arguments: Any) -> None:
        if arguments.cpu:
            study.name += "-cpu"
            on_cpu(study)
        else:
            study.on_device()
            on_gpu(study)

    return measure


def time_calls(
    study: Study,
    machine: Machine,
    case: str,
    calls: dict[str, Call],
    result: Callable[[str], Any],
    wanted: Any,
    **about: Any,
) -> None:
    """Check that calls agree, then time them."""

    def check(name: str) -> dict[str, Any]:
        error = deviation(result(name), wanted)
        if not error < TOLERANCE:
            raise ArithmeticError(f"deviates by {error:.3g} of the norm")
        return {}

    study.compare(case, calls, REPETITIONS, machine.settle, machine.clock, check, **about)


def deviation(x: Any, wanted: Any) -> float:
    difference = (x - wanted).ravel()
    return float(abs(difference).max() / abs(wanted).max())
