"""Candidates of a CUDA study: checked, run twice for their bits, then timed in turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

import mgrec

from ..harness.clock import REPEATS, Call, device_clock, flush_cache, host_clock
from ..harness.machine import optional
from ..harness.study import Study

cupy = optional("cupy")
# Largest deviation of a step from its own recurrence, relative to its terms.
TOLERANCES = {"f4": 1e-4, "f8": 1e-12}


@dataclass(frozen=True)
class Candidate:
    """A call and the array it writes to; without one it returns its result.

    What solves another problem has `words` of its own and is not checked.
    """

    call: Call
    result: Any = None
    words: int | None = None

    def run(self) -> Any:
        """Call, and return the result as an array of CuPy."""
        returned = self.call()
        array = returned if self.result is None else self.result
        return array if isinstance(array, cupy.ndarray) else cupy.from_dlpack(array)


Build = Callable[[], Candidate]


@dataclass(frozen=True)
class Work:
    """A recurrence w = s·w + t along the last axis, from w = 0.

    s is an array, a number or a `mgrec.Coefficient`.
    """

    name: str
    s: Any
    t: Any
    tolerance: float

    @property
    def words(self) -> int:
        """Words that a step must move."""
        return 3 if isinstance(self.s, cupy.ndarray) else 2

    @property
    def about(self) -> dict[str, Any]:
        steps = self.t.shape[-1]
        shape = [self.t.size // steps, steps, 1]
        about = {"dtype": self.t.dtype.name, "shape": shape, "steps": self.t.size}
        return {**about, "bytes": self.words * self.t.nbytes}

    def kernel(self) -> Candidate:
        """The public function into a result that exists, whose launch the device waits for."""
        w = cupy.empty_like(self.t)
        return Candidate(partial(mgrec.linear_recurrence, self.s, self.t, out=w), w)

    def call(self) -> Candidate:
        """The public function, which allocates its result."""
        return Candidate(partial(mgrec.linear_recurrence, self.s, self.t))

    def copy(self) -> Candidate:
        """A copy of t: two words a step."""
        target = cupy.empty_like(self.t)
        size = self.t.nbytes
        return Candidate(lambda: target.data.copy_from_device_async(self.t.data, size), words=2)

    def residual(self, w: Any) -> float:
        """Largest deviation of any step from its own recurrence, relative to the step's terms."""
        worst, steps = 0.0, w.shape[-1]
        piece = max(1, 2**25 * steps // w.size)
        for first in range(0, steps, piece):
            part = slice(first, min(first + piece, steps))
            before = cupy.zeros_like(w[..., part])
            before[..., 1:] = w[..., first : part.stop - 1]
            if first:
                before[..., 0] = w[..., first - 1]
            x = self._coefficients(part) * before + self.t[..., part]
            error = abs(w[..., part] - x) / (1 + abs(x) + abs(before))
            peak = float(error.max())
            worst = peak if not peak <= worst else worst
        return worst

    def _coefficients(self, part: slice) -> Any:
        if isinstance(self.s, mgrec.Coefficient):
            return self.s.function.function(cupy.arange(part.start, part.stop))
        return self.s[..., part] if isinstance(self.s, cupy.ndarray) else self.s


def draw(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Any:
    values = cupy.empty(shape, dtype)
    real = values.view(values.real.dtype).reshape(-1)
    for first in range(0, real.size, 2**26):
        part = real[first : first + 2**26]
        part[:] = rng.random(part.size, dtype=part.dtype) * (2 * scale) - scale
    return values


def draw_work(name: str, shape: tuple[int, ...], dtype: str, s: Any = None) -> Work:
    """Operands of w = s·w + t; `s` is drawn where none is given."""
    rng = cupy.random.default_rng(time.time_ns() % 2**32)
    tolerance = TOLERANCES[dtype]
    if s == 1.0:
        # A sum that drifts far from 0 and comes back keeps the rounding errors of large values.
        tolerance *= 0.01 * prod(shape) ** 0.5
    s = draw(rng, shape, dtype, 0.7) if s is None else s
    return Work(name, s, draw(rng, shape, dtype, 0.7), tolerance)


def check(work: Work, candidate: Candidate) -> dict[str, Any]:
    """Compare every step with its own recurrence; say whether a second run has the same bits."""
    if candidate.words:
        return {"bytes": candidate.words * work.t.nbytes, "words": candidate.words}
    if candidate.result is not None:
        candidate.result.fill(np.nan)
    first = candidate.run().reshape(work.t.shape).copy()
    deviation = work.residual(first)
    if not deviation <= work.tolerance:
        raise ArithmeticError(f"deviates by {deviation:.3g}, tolerated is {work.tolerance:.3g}")
    again = candidate.run().reshape(work.t.shape)
    return {"residual": deviation, "same_bits": bool((first == again).all())}


def compare(
    study: Study, work: Work, builds: dict[str, Build], repetitions: int = REPEATS, by_host: bool = False
) -> None:
    """Build, check and time candidates."""
    calls: dict[str, Call] = {}

    def build_and_check(name: str) -> dict[str, Any]:
        candidate = builds[name]()
        found = check(work, candidate)
        candidate.call()
        calls[name] = candidate.call
        return found

    clock, reader = (host_clock, "host") if by_host else (device_clock, "device")
    candidates = {name: lambda name=name: calls[name]() for name in builds}
    study.compare(
        work.name, candidates, repetitions, flush_cache, clock, build_and_check, **work.about, timed_by=reader
    )


def compare_with_call(study: Study, work: Work, builds: dict[str, Build]) -> None:
    """Compare a copy and mgrec's kernel with others, then time the public call by the host."""
    compare(study, work, {"copy": work.copy, "mgrec kernel": work.kernel, **builds})
    compare(study, work, {"mgrec call": work.call}, by_host=True)
