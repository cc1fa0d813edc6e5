"""Recurrences, filters and tridiagonal systems inside torch on one GPU, forward and backward.

Gradients of small arrays are checked against those in float64; then calls are timed against the
floor of memory traffic. The floor reads each operand once and writes each result once in each pass;
the gradient of a recurrence has two passes. Peers run in the same run, if they are installed: both
kernels of accelerated-scan, torchaudio, torchlpc and philtorch inside torch, and jax under jit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

import mgrec
from mgrec import signal

from ..cpu.gradients import A, B, by_philtorch, by_torchaudio, by_torchlpc, differentiate
from ..harness.clock import Call, Clock, device_clock, host_clock
from .fractions import Row, fractions, run

# JAX would take three quarters of the memory.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

Solve = Callable[..., Any]
"""``(*tensors) -> result``"""
BOUND = 1e-5
"""Largest difference of gradients in float32 from those in float64, in parts of the largest one."""


@dataclass(frozen=True)
class Case:
    """A function of tensors, all of whose gradients are computed.

    Attributes
    ----------
    draw : callable, ``(shape) -> tensors``
        Draw arguments of float32 in memory of the GPU.
    words : (int, int)
        Words of the floor for each element of the result: forward, and backward.
    candidates : tuple of (name, solve)
        mgrec first. A peer raises ImportError when it is called.
    bound : float
        Largest difference, as ``BOUND``.
    """

    name: str
    shape: tuple[int, ...]
    small: tuple[int, ...]
    words: tuple[int, int]
    draw: Callable[[tuple[int, ...]], list[Any]]
    candidates: tuple[tuple[str, Solve], ...]
    dtype: torch.dtype = torch.float32
    bound: float = BOUND


def draw_recurrence(shape: tuple[int, ...]) -> list[Any]:
    return [0.9 * torch.rand(shape, device="cuda"), torch.rand(shape, device="cuda")]


def draw_filter(shape: tuple[int, ...]) -> list[Any]:
    coefficients = [torch.tensor(values, device="cuda") for values in (B, A)]
    return [*coefficients, torch.randn(shape, device="cuda")]


def draw_systems(shape: tuple[int, ...]) -> list[Any]:
    dl, d, du, b = (torch.rand(shape, device="cuda") for _ in range(4))
    return [dl, d + 4, du, b]


def by_triton(s: Any, t: Any) -> Any:
    from accelerated_scan.scalar import scan

    return scan(s[None], t[None])[0]


def by_warp(s: Any, t: Any) -> Any:
    from accelerated_scan.warp import scan

    return scan(s[None], t[None])[0]


def by_jax(dl: Any, d: Any, du: Any, b: Any) -> Any:
    import jax

    return jax.lax.linalg.tridiagonal_solve(dl, d, du, b[..., None])[..., 0]


ROWS, FEW_ROWS = (2048, 32_768), (64, 32_768)
SCANS = (
    ("mgrec", mgrec.linear_recurrence),
    ("accelerated-scan Triton", by_triton),
    ("accelerated-scan warp", by_warp),
)
FILTERS = (
    ("mgrec", signal.lfilter),
    ("torchaudio", by_torchaudio),
    ("torchlpc", by_torchlpc),
    ("philtorch", by_philtorch),
)
SYSTEMS = (("mgrec", mgrec.solve_tridiagonal), ("jax", by_jax))
CASES = [
    Case("rows, float32", ROWS, FEW_ROWS, (3, 6), draw_recurrence, SCANS),
    # Tuples of bfloat16 in the warp kernel of accelerated-scan 0.3.1 are aligned to twice their
    # size: it reads and writes beyond its arrays.
    Case("rows, bfloat16", ROWS, FEW_ROWS, (3, 6), draw_recurrence, SCANS[:2], torch.bfloat16, 2e-2),
    Case("one row", (2**28,), (2**22,), (3, 6), draw_recurrence, SCANS[:1]),
    Case("tridiagonal systems", (10_000, 1024), (50, 1024), (5, 9), draw_systems, SYSTEMS),
    # Sums over all samples.
    Case("filter", (64, 2**20), (4, 2**14), (2, 4), draw_filter, FILTERS, bound=1e-4),
]


def passes(solve: Solve, tensors: list[Any], grad: Any) -> tuple[Solve, Solve, Clock]:
    """Return the calls of a candidate, forward and with all gradients, and their clock.

    Results of jax are ready when a call returns: its streams are not those of the events.
    """
    if solve is not by_jax:
        recorded = [tensor.clone().requires_grad_() for tensor in tensors]
        both = partial(differentiate, solve, recorded, grad)
        return partial(solve, *recorded), both, device_clock
    import jax

    *arrays, weights = (jax.dlpack.from_dlpack(x.contiguous()) for x in (*tensors, grad))

    def with_gradients(*arrays: Any) -> Any:
        _, backward = jax.vjp(solve, *arrays)
        return backward(weights)

    forward, both = jax.jit(solve), jax.jit(with_gradients)
    return partial(forward, *arrays), partial(both, *arrays), _jax_clock


def _jax_clock(call: Call, count: int) -> float:
    """Return the seconds of one call until the results of the last one are ready."""

    def queue() -> None:
        for _ in range(count):
            results = call()
        import jax

        jax.block_until_ready(results)

    return host_clock(queue, 1) / count


def difference(case: Case, solve: Solve) -> float:
    """Return the largest distance of gradients of small arrays from mgrec's in float64."""
    tensors = [tensor.to(case.dtype) for tensor in case.draw(case.small)]
    grad = torch.randn(case.small, device="cuda").to(case.dtype)
    gradients = passes(solve, tensors, grad)[1]()
    wide = [tensor.double().requires_grad_() for tensor in tensors]
    expected = differentiate(case.candidates[0][1], wide, grad.double())
    return max(
        float((torch.from_dlpack(found).double() - wanted).abs().max() / wanted.abs().max())
        for found, wanted in zip(gradients, expected, strict=True)
    )


def measure(case: Case, bandwidth: float) -> Iterator[Row]:
    torch.manual_seed(1)
    tensors = [tensor.to(case.dtype) for tensor in case.draw(case.shape)]
    grad = torch.randn(case.shape, device="cuda").to(case.dtype)
    floors = [words * grad.nbytes / bandwidth for words in (case.words[0], sum(case.words))]
    for name, solve in case.candidates:
        try:
            distance = difference(case, solve)
        except (AttributeError, ImportError, OSError, RuntimeError) as error:
            print(f"{name}: {error}"[:300], file=sys.stderr)
            continue
        *calls, clock = passes(solve, tensors, grad)
        for direction, call, floor in zip(("forward", "forward and backward"), calls, floors, strict=True):
            row = {"case": case.name, "candidate": name, "pass": direction}
            yield row | fractions(call, floor, clock) | {"difference": distance, "bound": case.bound}
        torch.cuda.empty_cache()


def is_wrong(row: Row) -> bool:
    return bool(row["candidate"] == "mgrec" and row["difference"] > row["bound"])


if __name__ == "__main__":
    run("cuda_gradients", __doc__, CASES, measure, is_wrong)
