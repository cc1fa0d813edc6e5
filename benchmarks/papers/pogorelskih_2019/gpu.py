"""The paper's variants as kernels of a GPU, each a call that queues its launches."""

from __future__ import annotations

from functools import partial
from typing import Any

import cupy

import mgrec
from mgrec.core.arrays.chunk import Chunk
from mgrec.engines.cuda.device import Device
from mgrec.tridiagonal.cuda import nopivot

from ...cuda.clock import device_clock, flush_cache
from ..timing import Call
from . import kernels
from .printed import (
    AGAIN,
    AGAIN_GLOBAL,
    ALL,
    AUTO,
    NONE,
    P_SCHEME,
    PART,
    PCR,
    REDUCTION,
    STORED,
    STORED_GLOBAL,
    THOMAS,
    THOMAS_GLOBAL,
)

# Seconds of Thomas for a single system grow with its rows: 0.1 microseconds each.
MOST_ROWS_A_THREAD = 2**20

settle, clock = flush_cache, device_clock


def draw(systems: int, rows: int) -> list[Any]:
    """dl, d, du and b of dominant systems."""
    rng = cupy.random.default_rng(systems + rows)
    dl, du, b = (rng.standard_normal((systems, rows), dtype="f4") for _ in range(3))
    cupy.clip(dl, -2, 2, out=dl)
    cupy.clip(du, -2, 2, out=du)
    return [dl, cupy.full_like(b, 4.5), du, b]


def batch(operands: list[Any], out: Any) -> dict[str, Call]:
    builds = {
        THOMAS: nopivot.thomas, THOMAS_GLOBAL: kernels.thomas_in_memory,
        AGAIN: kernels.RECOMPUTED[True], AGAIN_GLOBAL: kernels.RECOMPUTED[False],
        STORED: kernels.STORED[True], STORED_GLOBAL: kernels.STORED[False],
        REDUCTION: nopivot.cyclic_reduction,
        PART: nopivot.pcr_part, ALL: nopivot.pcr_all, NONE: nopivot.pcr_none,
    }  # fmt: skip
    return {AUTO: _public(operands, out, "auto")} | _launched(builds, operands, out)


def single(operands: list[Any], out: Any) -> dict[str, Call]:
    builds: dict[str, Any] = {REDUCTION: nopivot.cyclic_reduction, PCR: nopivot.pcr}
    shape, device = (1, out.size, 1), Device.current()
    if nopivot.pcr_part(shape, out.dtype, device):
        builds[PART] = nopivot.pcr_part
    if out.size <= MOST_ROWS_A_THREAD:
        builds[THOMAS] = nopivot.thomas
    public = {AUTO: "auto", P_SCHEME: "p-scheme"}
    calls = {name: _public(operands, out, method) for name, method in public.items()}
    return calls | _launched(builds, operands, out)


def _public(operands: list[Any], out: Any, method: str) -> Call:
    return lambda: mgrec.solve_tridiagonal(*operands, method=method, out=out)


def _launched(builds: dict[str, Any], operands: list[Any], out: Any) -> dict[str, Call]:
    shape = (*out.shape, 1)
    chunk = Chunk(tuple(part[..., None] for part in operands), shape, out.dtype)
    result = out.reshape(shape)
    return {
        name: partial(nopivot.launch_whole, each, chunk, result) for name, each in builds.items()
    }
