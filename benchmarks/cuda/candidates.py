"""Candidates of a CUDA study: checked, run twice for their bits, then timed in turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np

import mgrec
from mgrec.core.arrays.chunk import Chunk, CoefficientOperand
from mgrec.scans import maps
from mgrec.scans.cuda.coefficients import is_ahead
from mgrec.scans.cuda.determine import prepare
from mgrec.scans.cuda.phases import kernels

from ..harness.clock import Times
from ..harness.study import Study
from .cases import Case, draw, residual
from .clock import REPEATS, device_clock, flush_cache, host_clock

# Largest deviation of a step from its own recurrence, relative to its terms.
TOLERANCES = {"f4": 1e-4, "f8": 1e-12}


@dataclass(frozen=True)
class Candidate:
    """A call and the array it writes to; without one it returns its result.

    What solves another problem has `words` of its own and is not checked.
    """

    call: Callable[[], Any]
    result: Any = None
    words: int | None = None


Build = Callable[[], Candidate]


@dataclass(frozen=True)
class Work:
    """One recurrence with its operands: w = s·w + t from w = 0."""

    case: Case
    s: Any
    t: Any
    tolerance: float

    @property
    def chunk(self) -> Chunk:
        return Chunk((self._lay_out(self.s), self._lay_out(self.t)), self.case.shape, self.t.dtype)

    def _lay_out(self, operand: Any) -> Any:
        if isinstance(operand, CoefficientOperand):
            return operand
        if operand.size == 1:
            return operand.reshape(1, 1, 1)
        return operand.reshape(self.case.shape)

    @property
    def carry_in(self) -> tuple[Any, ...]:
        return (cupy.zeros((self.case.shape[0], self.case.shape[2]), self.t.dtype),)

    @property
    def bytes(self) -> int:
        """Least traffic."""
        return self.case.words * self.t.nbytes

    def kernel(self) -> Candidate:
        """The single pass of mgrec, into a result that exists."""
        w = cupy.empty(self.case.shape, self.t.dtype)
        arguments = (self.case.transfer_map, self.chunk, self.carry_in, (w,))
        if is_ahead(self.chunk):
            return Candidate(lambda: kernels("auto").determine(*arguments), w)
        return Candidate(prepare(*arguments), w)

    def call(self) -> Candidate:
        """The public function, which allocates its result."""
        s = self.s
        if isinstance(s, CoefficientOperand):
            s = mgrec.Coefficient(s.function.function)
        elif s.size == 1:
            s = float(s.ravel()[0])
        return Candidate(lambda: mgrec.linear_recurrence(s, self.t))

    def copy(self) -> Candidate:
        """A copy of t: two words a step."""
        target = cupy.empty_like(self.t)
        size = self.t.nbytes
        return Candidate(lambda: target.data.copy_from_device_async(self.t.data, size), words=2)


def draw_work(name: str, shape: tuple[int, int, int], dtype: str, s: Any = None) -> Work:
    """Operands of w = s·w + t; `s` is drawn where none is given."""
    rng = cupy.random.default_rng(time.time_ns() % 2**32)
    flat = tuple(n for n in shape if n > 1)
    case = Case(name, maps.affine, shape, dtype, 3 if s is None else 2)
    tolerance = TOLERANCES[dtype]
    if isinstance(s, float):
        # A sum that drifts far from 0 and comes back keeps the rounding errors of large values.
        tolerance *= 0.01 * shape[1] ** 0.5 if s == 1 else 1
        s = cupy.full((1, 1, 1), s, dtype)
    s = draw(rng, flat, dtype, 0.7) if s is None else s
    return Work(case, s, draw(rng, flat, dtype, 0.7), tolerance)


def to_cupy(array: Any) -> Any:
    return array if isinstance(array, cupy.ndarray) else cupy.from_dlpack(array)


def check(work: Work, candidate: Candidate) -> dict[str, Any]:
    """Compare every step with its own recurrence; say whether a second run has the same bits."""
    if candidate.result is not None:
        candidate.result.fill(np.nan)
    returned = candidate.call()
    w = to_cupy(candidate.result if candidate.result is not None else returned)
    deviation = residual(work.case, work.chunk, work.carry_in, (w.reshape(work.case.shape),))
    if not deviation <= work.tolerance:
        raise ArithmeticError(f"deviates by {deviation:.3g}, tolerated is {work.tolerance:.3g}")
    first = w.copy()
    returned = candidate.call()
    again = to_cupy(candidate.result if candidate.result is not None else returned)
    return {"residual": deviation, "same_bits": bool((first == again.reshape(w.shape)).all())}


def compare(
    study: Study, work: Work, builds: dict[str, Build], repetitions: int = REPEATS,
    by_host: bool = False,
) -> dict[str, Times]:  # fmt: skip
    """Check and time candidates; record why one that fails was not measured."""
    calls: dict[str, Callable[[], Any]] = {}
    found: dict[str, dict[str, Any]] = {}
    for name, build in builds.items():
        try:
            candidate = build()
            found[name] = {"words": candidate.words} if candidate.words else check(work, candidate)
            candidate.call()
            calls[name] = candidate.call
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            study.miss(work.case.name, name, reason[:300])
    clock, reader = (host_clock, "host") if by_host else (device_clock, "device")
    about = {"dtype": work.t.dtype.name, "shape": list(work.case.shape), "steps": work.t.size}
    about |= {"bytes": work.bytes, "timed_by": reader}
    times = study.compare(work.case.name, calls, repetitions, flush_cache, clock, **about)
    for row in study.cases[len(study.cases) - len(calls) :]:
        row |= found[row["candidate"]]
        if "words" in row:
            share = row["words"] / work.case.words
            row |= {"bytes": row["bytes"] * share, "fraction": row["fraction"] * share}
    return times
