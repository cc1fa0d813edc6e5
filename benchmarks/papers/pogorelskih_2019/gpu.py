"""The paper's variants as kernels of a GPU, each a call that queues its launches."""

from __future__ import annotations

from functools import partial
from typing import Any

import cupy

import mgrec
from mgrec.core.arrays.chunk import Chunk
from mgrec.engines.cuda.device import Device
from mgrec.tridiagonal.cuda import nopivot

from ...harness.clock import Call
from .. import timing
from . import kernels, printed
from .measure import Place

# Seconds of Thomas for a single system grow with its rows: 0.1 microseconds each.
MOST_ROWS_A_THREAD = 2**20


def draw(systems: int, rows: int) -> list[Any]:
    """dl, d, du and b of dominant systems."""
    rng = cupy.random.default_rng(systems + rows)
    dl, du, b = (rng.standard_normal((systems, rows), dtype="f4") for _ in range(3))
    cupy.clip(dl, -2, 2, out=dl)
    cupy.clip(du, -2, 2, out=du)
    return [dl, cupy.full_like(b, 4.5), du, b]


def batch(operands: list[Any], out: Any) -> dict[str, Call]:
    builds = {
        printed.THOMAS: nopivot.thomas,
        printed.THOMAS_GLOBAL: kernels.thomas_in_memory,
        printed.AGAIN: kernels.RECOMPUTED[True],
        printed.AGAIN_GLOBAL: kernels.RECOMPUTED[False],
        printed.STORED: kernels.STORED[True],
        printed.STORED_GLOBAL: kernels.STORED[False],
        printed.REDUCTION: nopivot.cyclic_reduction,
        printed.PART: nopivot.pcr_part,
        printed.ALL: nopivot.pcr_all,
        printed.NONE: nopivot.pcr_none,
    }
    return {printed.AUTO: _public(operands, out, "auto")} | _launched(builds, operands, out)


def single(operands: list[Any], out: Any) -> dict[str, Call]:
    builds: dict[str, Any] = {printed.REDUCTION: nopivot.cyclic_reduction, printed.PCR: nopivot.pcr}
    shape, device = (1, out.size, 1), Device.current()
    if nopivot.pcr_part(shape, out.dtype, device):
        builds[printed.PART] = nopivot.pcr_part
    if out.size <= MOST_ROWS_A_THREAD:
        builds[printed.THOMAS] = nopivot.thomas
    public = {printed.AUTO: "auto", printed.P_SCHEME: "p-scheme"}
    calls = {name: _public(operands, out, method) for name, method in public.items()}
    return calls | _launched(builds, operands, out)


def _public(operands: list[Any], out: Any, method: str) -> Call:
    return lambda: mgrec.solve_tridiagonal(*operands, method=method, out=out)


def _launched(builds: dict[str, Any], operands: list[Any], out: Any) -> dict[str, Call]:
    shape = (*out.shape, 1)
    chunk = Chunk(tuple(part[..., None] for part in operands), shape, out.dtype)
    result = out.reshape(shape)
    return {name: partial(nopivot.launch_whole, each, chunk, result) for name, each in builds.items()}


GPU = Place(draw, batch, single, timing.GPU)
