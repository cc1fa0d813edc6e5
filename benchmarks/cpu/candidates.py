"""What the CPU study times: the public call in several forms, and the kernels alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

import mgrec
from mgrec.core.algebra.transfer_map import affine
from mgrec.core.arrays.chunk import Chunk, canonical_shape, lay_out_carry_in
from mgrec.scans.cpu import one_thread as cpu

Call = Callable[[], Any]


def kernel(s: Any, t: np.ndarray) -> Call:
    """The determination of one chunk, into a result that exists, without the door."""
    chunk = chunk_of(s, t)
    carry_in = (lay_out_carry_in(np.zeros((), t.dtype), t.shape, t.ndim - 1),)
    results = (np.empty(chunk.shape, t.dtype),)
    return lambda: cpu.determine(affine, chunk, carry_in, results)


def into_out(s: Any, t: np.ndarray, axis: int = -1) -> Call:
    """The public call on one thread, into a result that exists."""
    return threads(1, mgrec.linear_recurrence, s, t, axis=axis, out=np.empty_like(t))


def summary(s: Any, t: np.ndarray) -> Call:
    chunk = chunk_of(s, t)
    return lambda: cpu.precompute(affine, chunk)


def chunk_of(s: Any, t: np.ndarray) -> Chunk:
    """Rows along the last axis, as the kernels take them."""
    shape = canonical_shape(t.shape, t.ndim - 1)
    s = np.asarray(s, t.dtype)
    return Chunk((s.reshape(shape if s.ndim else (1, 1, 1)), t.reshape(shape)), shape, t.dtype)


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
