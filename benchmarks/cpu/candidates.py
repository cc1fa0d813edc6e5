"""What the CPU studies time: public calls on threads, and kernels alone; and their checks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import mgrec
from mgrec.core.algebra.transfer_map import affine
from mgrec.core.arrays.chunk import Chunk, canonical_shape, lay_out_carry_in
from mgrec.scans.cpu import one_thread as cpu

from ..harness.clock import Call


def threads(count: int, call: Callable[..., Any], *arguments: Any, **options: Any) -> Call:
    def limited() -> Any:
        os.environ["MGREC_NUM_THREADS"] = str(count)
        return call(*arguments, **options)

    return limited


def calls(name: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> dict[str, Call]:
    """A public call on one thread and on two."""
    one, two = (threads(count, call, *arguments, **options) for count in (1, 2))
    return {name: one, f"{name}, 2 threads": two}


def into_out(s: Any, t: np.ndarray, axis: int = -1) -> Call:
    """The public call on one thread, into a result that exists."""
    return threads(1, mgrec.linear_recurrence, s, t, axis=axis, out=np.empty_like(t))


def kernel(s: Any, t: np.ndarray) -> Call:
    """The determination of one chunk, into a result that exists, without validation."""
    chunk = chunk_of(s, t)
    carry_in = (lay_out_carry_in(np.zeros((), t.dtype), t.shape, t.ndim - 1),)
    results = (np.empty(chunk.shape, t.dtype),)
    return lambda: cpu.determine(affine, chunk, carry_in, results)


def summary(s: Any, t: np.ndarray) -> Call:
    chunk = chunk_of(s, t)
    return lambda: cpu.precompute(affine, chunk)


def chunk_of(s: Any, t: np.ndarray) -> Chunk:
    """Rows along the last axis, as the kernels take them."""
    shape = canonical_shape(t.shape, t.ndim - 1)
    s = np.asarray(s, t.dtype)
    return Chunk((s.reshape(shape if s.ndim else (1, 1, 1)), t.reshape(shape)), shape, t.dtype)


def agree(candidates: Mapping[str, Call], wanted: Any, tolerance: float = 1e-9) -> None:
    """Check that what is timed is also right."""
    for name, call in candidates.items():
        np.testing.assert_allclose(np.asarray(call()), wanted, tolerance, tolerance, err_msg=name)


def about(x: np.ndarray, words: int = 0) -> dict[str, Any]:
    """What a row says of its array, of which a step moves some words."""
    found = {"dtype": x.dtype.name, "shape": list(x.shape), "steps": x.size}
    return found | ({"bytes": words * x.nbytes} if words else {})
