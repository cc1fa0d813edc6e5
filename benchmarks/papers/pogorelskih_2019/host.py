"""The methods over NumPy arrays: what a GPU is compared with, and the whole study without one."""

from __future__ import annotations

from typing import Any

import numpy as np

import mgrec

from ...cpu.candidates import Call, threads
from ...cpu.tridiagonal_peers import thomas_rows
from .printed import AUTO, CPU_SERICR, CPU_THOMAS, P_SCHEME, PCR, REDUCTION


def draw(systems: int, rows: int) -> list[np.ndarray]:
    """dl, d, du and b of dominant systems."""
    parts = np.random.default_rng(systems + rows).standard_normal((4, systems, rows), np.float32)
    parts[[0, 2]] = parts[[0, 2]].clip(-2, 2)
    parts[1] = 4.5
    return list(parts)


def loops(operands: list[np.ndarray]) -> dict[str, Call]:
    """One thread of a CPU."""
    solve, out = mgrec.solve_tridiagonal, np.empty_like(operands[3])
    return {
        CPU_THOMAS: lambda: thomas_rows(*operands),
        CPU_SERICR: threads(1, solve, *operands, method="cyclic-reduction", out=out),
    }


def batch(operands: list[np.ndarray], out: np.ndarray) -> dict[str, Call]:
    methods = {AUTO: "auto", "mgrec thomas": "thomas", REDUCTION: "cyclic-reduction", PCR: "pcr"}
    return {name: _into(out, operands, method) for name, method in methods.items()}


def single(operands: list[np.ndarray], out: np.ndarray) -> dict[str, Call]:
    return batch(operands, out) | {P_SCHEME: _into(out, operands, "p-scheme")}


def _into(out: np.ndarray, operands: list[Any], method: str) -> Call:
    return threads(1, mgrec.solve_tridiagonal, *operands, method=method, out=out)
