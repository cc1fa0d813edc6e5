"""What the CPU study times: the public call in several forms, and the kernels alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

import mgrec
from mgrec.algebra.affine import affine
from mgrec.arrays.door import check
from mgrec.arrays.layout import lay_out, lay_out_entry
from mgrec.backends import cpu

Call = Callable[[], Any]


def kernel(s: Any, t: np.ndarray) -> Call:
    """The determination of one chunk, into a result that exists, without the door."""
    problem = check(affine, {"s": s, "t": t}, 0, -1, False)
    chunk = lay_out(problem, problem.operands, problem.shape, 0)
    entry = (lay_out_entry(problem.initial[0], problem.shape, problem.axis),)
    results = (np.empty(chunk.shape, problem.dtype),)
    return lambda: cpu.determine(affine, chunk, entry, results)


def into_out(s: Any, t: np.ndarray, axis: int = -1) -> Call:
    """The public call on one thread, into a result that exists."""
    return threads(1, mgrec.linear_recurrence, s, t, axis=axis, out=np.empty_like(t))


def summary(s: Any, t: np.ndarray) -> Call:
    problem = check(affine, {"s": s, "t": t}, 0, -1, False)
    chunk = lay_out(problem, problem.operands, problem.shape, 0)
    return lambda: cpu.precompute(affine, chunk)


def threads(count: int, call: Callable[..., Any], *arguments: Any, **options: Any) -> Call:
    def limited() -> Any:
        os.environ["MGREC_NUM_THREADS"] = str(count)
        return call(*arguments, **options)

    return limited


def calls(call: Callable[..., Any], *arguments: Any, **options: Any) -> dict[str, Call]:
    """The public call on one thread and on two."""
    return {
        "mgrec call": threads(1, call, *arguments, **options),
        "mgrec call, 2 threads": threads(2, call, *arguments, **options),
    }
