"""Chunks solved speculatively and corrected, by kernels that run on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_blocks_on_host import BlockCompiler
from cuda_on_host import HostArray, as_device, poisoned, run_on_host

from mgrec.core.algebra.transfer_map import affine
from mgrec.core.arrays.chunk import Chunk
from mgrec.engines.cuda.device import Device
from mgrec.scans.cpu.one_thread import propagate
from mgrec.scans.cuda import speculation
from mgrec.scans.cuda.phases import kernels

PHASES = kernels("auto")
STEPS = 30_007


COMPILER = BlockCompiler


@pytest.fixture(autouse=True)
def _on_host(compiler: BlockCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    run_on_host(monkeypatch, compiler, array=HostArray, device=Device(90, 3, 227 * 1024))
    monkeypatch.setattr(speculation, "fetch", lambda array: array.get)
    monkeypatch.setattr(speculation, "_PREFIX_FRACTION", 3)
    monkeypatch.setattr(speculation, "_CONSTANT_PREFIX_FRACTION", 2)


def loop(s: Any, t: Any, state: Any, reverse: bool) -> Any:
    w = np.empty(t.shape, t.dtype)
    s = np.broadcast_to(s, t.shape)
    order = range(t.shape[1])
    with np.errstate(all="ignore"):
        for i in reversed(order) if reverse else order:
            w[:, i] = state = s[:, i] * state + t[:, i]
    return w


def started(s: Any, t: Any, reverse: bool) -> Any:
    """What begins a chunk finds, and the results; None if the chunk must wait for its entry."""
    shape, dtype = t.shape, t.dtype
    given = np.asarray(s) if np.ndim(s) == 0 else as_device(s)
    chunk = Chunk((given.reshape(given.shape or (1, 1, 1)), as_device(t)), shape, dtype, reverse)
    results = (as_device(poisoned(shape, dtype)),)
    wait = PHASES.speculate(affine, chunk, results)
    found = wait and wait()
    return (*found, results) if found else None


def solve(s: Any, t: Any, carry_in: Any, reverse: bool) -> tuple[Any, Any]:
    """Begin, then finish twice: the results, and the exit by the summary."""
    summary, prefix, results = started(s, t, reverse)
    rows = t.shape[::2]
    given = (np.broadcast_to(np.asarray(carry_in, t.dtype), rows).copy(),)
    (carry_out,) = propagate(affine, (None, None), summary, given)
    PHASES.correct(prefix, given, results)
    return np.array(PHASES.correct(prefix, given, results)[0]), carry_out


def check(s: Any, t: Any, carry_in: Any, reverse: bool) -> None:
    w, carry_out = solve(s, t, carry_in, reverse)
    wide = [np.asarray(x, np.float64) for x in (s, t, carry_in)]
    wanted, sizes = loop(*wide, reverse), loop(*map(np.abs, wide), reverse)
    last = 0 if reverse else -1
    tolerance = 40 * np.finfo(t.dtype).eps
    assert (np.abs(w - wanted) <= tolerance * sizes).all()
    assert (np.abs(carry_out - wanted[:, last]) <= tolerance * sizes[:, last]).all()


def draw(dtype: str, shape: Any = (1, STEPS, 1), low: float = 0.1) -> Any:
    rng = np.random.default_rng(0)
    return rng.uniform(low, 0.8, shape).astype(dtype), rng.uniform(0.5, 1, shape).astype(dtype)


@pytest.mark.extended
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("carry_in", [0.0, -1e30])
def test_coefficients_in_an_array(dtype: str, reverse: bool, carry_in: float) -> None:
    check(*draw(dtype), carry_in, reverse)


@pytest.mark.extended
@pytest.mark.parametrize("shape", [(1, STEPS, 1), (2, STEPS, 1), (1, STEPS, 3)])
@pytest.mark.parametrize("s", [0.5, -0.9])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_constant_coefficient(shape: Any, s: float, reverse: bool) -> None:
    t = draw("f4", shape)[1]
    carry_in = np.random.default_rng(1).normal(size=(shape[0], shape[2])).astype("f4") * 1e10
    check(np.float32(s), t, carry_in, reverse)


@pytest.mark.extended
@pytest.mark.parametrize("reverse", [False, True])
def test_what_does_not_forget_waits_for_its_entry(reverse: bool) -> None:
    s, t = draw("f4")
    first = slice(-6000, None) if reverse else slice(6000)
    slow, infinite = s.copy(), t.copy()
    slow[:, first] = 0.999
    infinite[:, 20_000] = np.inf
    assert started(np.ones_like(s), t, reverse) is None
    assert started(slow, t, reverse) is None
    assert started(s, infinite, reverse) is None
    assert started(np.float32(1), t, reverse) is None
    assert started(np.float32(0.999), t, reverse) is None


@pytest.mark.extended
@pytest.mark.parametrize("carry_in", [np.inf, -np.inf, np.nan, 3e38])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("turned", [-1, 1])
def test_states_that_are_not_finite(carry_in: float, last: float, turned: float) -> None:
    """Also one that overflows by the fourth coefficient."""
    s, t = draw("f4", low=-0.7)
    s[0, 3], s[0, 17_000] = 1e3, turned * s[0, 17_000]
    s[0, 29_000] *= last
    w, carry_out = solve(s, t, carry_in, False)
    wanted = loop(s, t, np.float32(carry_in), False)
    assert not np.isfinite(wanted[0, -1, 0])
    np.testing.assert_array_equal(w[:, 4:], wanted[:, 4:])
    np.testing.assert_array_equal(carry_out, wanted[:, -1])


def test_the_pass_of_a_chunk_that_is_begun_tells_the_signs() -> None:
    s, t = draw("f4", (1, STEPS // 2, 1), low=-0.7)
    s[0, 3] = 1e3
    summary, _, (w,) = started(s, t, False)
    np.testing.assert_allclose(w, loop(s, t, np.float32(0), False), rtol=1e-3, atol=1e-5)
    for carry_in in (-3e38, np.inf):
        (carry_out,) = propagate(affine, (None, None), summary, (np.full((1, 1), carry_in, "f4"),))
        np.testing.assert_array_equal(carry_out, loop(s, t, np.float32(carry_in), False)[:, -1])
