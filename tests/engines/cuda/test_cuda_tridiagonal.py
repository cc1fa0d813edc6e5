"""Kernels of tridiagonal systems run on this machine, against those of the CPU."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda_on_host import (
    DeviceArray,
    HostArray,
    HostCompiler,
    as_device,
    empty,
    poisoned,
    run_on_host,
    use_kernels,
)

import mgrec
from mgrec.core.arrays.chunk import Chunk
from mgrec.core.contract import recurrence as family
from mgrec.engines.cuda.device import Device
from mgrec.solve import local, prepared
from mgrec.tridiagonal.cpu import phases as cpu
from mgrec.tridiagonal.cuda import partitions, phases, window
from mgrec.tridiagonal.errors import SingularSystemError
from mgrec.tridiagonal.interface import Ends

pytestmark = pytest.mark.extended

WHOLE = Ends(has_first=True, has_last=True, method="partition")
ANY = Ends(has_first=True, has_last=True)
# Partitions have 32 rows, and runs 16 partitions: lengths beside both, and of three levels.
SHAPES = [
    (1, 1, 1), (1, 2, 1), (3, 5, 1), (1, 31, 1), (1, 32, 1), (5, 33, 1), (2, 300, 1), (1, 511, 1),
    (1, 1024, 1), (1, 20_000, 1), (2, 130, 3), (1, 70, 40),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _on_host(compiler: HostCompiler, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the launches run here, over NumPy arrays."""
    device = Device(90, 2, 227 * 1024)
    run_on_host(monkeypatch, compiler, phases, array=HostArray, device=device)
    monkeypatch.setattr(phases, "start_windows", start_windows)
    partitions.prepared_launches.cache_clear()
    yield
    partitions.prepared_launches.cache_clear()
    window._tries.cache_clear()


def start_windows(tries: Any, operands: Any, result: int, neighbours: Any = (0, 0)) -> Any:
    flags = np.full(window.MAX_TRIES, -1)
    window.launch_tries(tries, operands, result, flags.ctypes.data, neighbours)
    return lambda: bool(tries and flags[len(tries) - 1])


def try_windows(chunk: Chunk, result: Any) -> bool:
    addresses = [operand.data.ptr for operand in chunk.operands]
    return bool(start_windows(window.prepare_tries(chunk), addresses, result.data.ptr)())


def draw(shape: tuple[int, ...], dtype: str, seed: int = 0) -> list[Any]:
    generator = np.random.default_rng(seed)
    parts = generator.normal(size=(4, *shape))
    if np.dtype(dtype).kind == "c":
        parts = parts + 1j * generator.normal(size=(4, *shape))
    return [part.astype(dtype) for part in parts]


def solve(operands: list[Any], shape: tuple[int, int, int], ends: Ends = WHOLE) -> tuple[Any, Any]:
    dtype = operands[3].dtype
    result = poisoned(shape, dtype).view(HostArray)
    chunk = Chunk(tuple(map(as_device, operands)), shape, dtype)
    is_finite = phases.determine(ends, chunk, None, result)
    return np.asarray(result), is_finite


def error(x: Any, wanted: Any) -> float:
    return float(np.linalg.norm(x - wanted) / np.linalg.norm(wanted))


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_every_shape(dtype: str) -> None:
    for shape in SHAPES:
        operands = draw(shape, dtype)
        operands[1] += np.asarray(4, dtype)
        if shape[1] > 500:
            operands[0] = np.full((1, 1, 1), 0.7, dtype)
            operands[2] = operands[2][:, :, :1]
        wanted = mgrec.solve_tridiagonal(*operands, axis=1)
        x, is_finite = solve(operands, shape)
        assert is_finite
        assert error(x, wanted) < 100 * np.finfo(dtype).eps, shape


@pytest.mark.parametrize("shape", [(3, 700, 1), (2, 130, 3)])
def test_chunks_of_lines(shape: tuple[int, int, int]) -> None:
    operands = draw(shape, "f8")
    wanted = mgrec.solve_tridiagonal(*operands, axis=1)
    cuts = [0, 1, 40, 41, shape[1]]
    pairs = list(itertools.pairwise(cuts))
    ends = [Ends(a == 0, b == shape[1]) for a, b in pairs]
    chunks = [
        Chunk(
            tuple(as_device(part[:, a:b]) for part in operands),
            (shape[0], b - a, shape[2]),
            np.dtype("f8"),
        )
        for a, b in pairs
    ]
    summaries = [phases.precompute(*job)() for job in zip(ends, chunks, strict=True)]
    entries = cpu.propagate(summaries)
    for own, chunk, carry_in, (a, b) in zip(ends, chunks, entries, pairs, strict=True):
        result = poisoned(chunk.shape, "f8").view(HostArray)
        assert phases.determine(own, chunk, carry_in, result)
        assert error(np.asarray(result), wanted[:, a:b]) < 1e-9


def make_singular(operands: list[Any], kind: str, at: int, system: Any = ...) -> None:
    """Set a row or a column of the matrix to 0, in one of the systems (outer, steps, inner)."""
    dl, d, du = (np.moveaxis(part, 1, -1)[system] for part in operands[:3])
    below, above = (at, at) if kind == "row" else ((at + 1) % d.shape[-1], at - 1)
    dl[..., below] = d[..., at] = du[..., above] = 0


@pytest.mark.parametrize("inner", [1, 2])
@pytest.mark.parametrize("kind", ["row", "column"])
def test_the_number_of_a_singular_system_is_told(kind: str, inner: int) -> None:
    # A partition is eliminated from both its ends: rows of both halves, and those at cuts.
    for at in (0, 5, 15, 16, 20, 31, 32, 64, 280, 299):
        for dtype in ("f8", "c8"):
            operands = draw((3, 300, inner), dtype)
            make_singular(operands, kind, at, (1, -1))
            for ends in (WHOLE, ANY):
                with pytest.raises(SingularSystemError) as raised:
                    solve(operands, (3, 300, inner), ends)
                assert raised.value.number == 2 * inner - 1, at


# One window of many systems, of one; several with a halo; columns, whole and with a halo.
WINDOWED = [
    (1, 1, 1), (3, 2, 1), (70, 5, 1), (1, 17, 1), (1, 18, 1), (140, 64, 1), (5, 101, 1),
    (3, 4095, 1), (1, 20_001, 1), (3, 9_000, 1), (2, 300, 11), (3, 20, 5), (1, 2_500, 9),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_systems_that_forget_are_read_once(dtype: str) -> None:
    for number, shape in enumerate(WINDOWED):
        operands = draw(shape, dtype, number)
        operands = [operands[0] / 4, operands[1] / 4 + 6, operands[2] / 4, operands[3]]
        operands = [np.ascontiguousarray(part, dtype) for part in operands]
        if number % 3 == 1:
            operands[0] = np.full((1, 1, 1), 0.7, dtype)
            operands[2] = operands[2][:1]
        chunk = Chunk(tuple(map(as_device, operands)), shape, np.dtype(dtype))
        result = poisoned(shape, dtype).view(HostArray)
        assert try_windows(chunk, result), shape
        wanted = mgrec.solve_tridiagonal(*operands, axis=1)
        assert error(np.asarray(result), wanted) < 4 * np.finfo(dtype).eps, shape
        begin, end = shape[1] // 3, shape[1] - shape[1] // 4
        x = determine_between(operands, wanted, begin, end)
        assert error(x, wanted[:, begin:end]) < 4 * np.finfo(dtype).eps, shape


def determine_between(operands: list[Any], x: Any, begin: int, end: int) -> Any:
    """The unknowns of rows of lines, from those on both sides."""
    parts = [part[:, begin:end] if part.shape[1] > 1 else part for part in operands]
    shape = (x.shape[0], end - begin, x.shape[2])
    chunk = Chunk(tuple(map(as_device, parts)), shape, x.dtype)
    carry_in = np.stack(
        [x[:, k] if 0 <= k < x.shape[1] else x[:, 0] for k in (begin - 1, begin, end - 1, end)]
    )
    result = poisoned(shape, x.dtype).view(HostArray)
    assert phases.determine(Ends(begin == 0, end == x.shape[1]), chunk, carry_in, result)
    return np.asarray(result)


@pytest.mark.parametrize("kind", ["row", "column"])
@pytest.mark.parametrize("at", [100, 120])
def test_a_chunk_that_cannot_be_solved_says_so(at: int, kind: str) -> None:
    operands = draw((2, 200, 1), "f4")
    make_singular(operands, kind, at, (1, 0))
    x = np.ones((2, 300, 1), "f4")
    with pytest.raises(SingularSystemError) as raised:
        determine_between(operands, x, 3, 190)
    assert raised.value.number == 1


@pytest.mark.parametrize("shape", [(1, 20_000, 1), (3, 1000, 1), (2, 300, 11)])
def test_others_are_solved_with_pivoting(shape: tuple[int, int, int]) -> None:
    operands = draw(shape, "f4")
    wanted, _ = solve(operands, shape)
    x, is_finite = solve(operands, shape, ANY)
    assert is_finite
    np.testing.assert_array_equal(x, wanted)
    # As dominant as can be, and remembering: as many windows fail as do not hold whole lines.
    operands = [np.full(shape, value, "f4") for value in (-1, 2.0001, -1, 1)]
    wanted = mgrec.solve_tridiagonal(*(part.astype("f8") for part in operands), axis=1)
    assert error(solve(operands, shape, ANY)[0], wanted) < 1e-3


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The problems that were solved, but for calls of a kind that was solved before."""
    prepared.cache_entry.cache_clear()
    solved: list[Any] = []
    solve = local.solve

    def seeing(*call: Any) -> Any:
        solved.append(call)
        return solve(*call)

    monkeypatch.setattr(local, "solve", seeing)
    use_kernels(monkeypatch, phases.kernels("auto"))
    # CuPy's arrays are no subclass of NumPy's, which a chunk would take for arrays of the host.
    monkeypatch.setattr(family, "as_native", lambda block: block)
    return solved


def given(n: int, seed: int, dominant: float = 6.0) -> list[Any]:
    dl, d, du, b = (part[0, :, 0] for part in draw((1, n, 1), "f8", seed))
    return [part.view(DeviceArray) for part in (dl, d / 8 + dominant, du, b)]


@pytest.mark.parametrize("dominant", [6.0, 0.0])
def test_calls_of_a_kind_are_prepared_once(seen: list[Any], dominant: float) -> None:
    for seed in range(3):
        operands = given(300, seed, dominant)
        wanted = mgrec.solve_tridiagonal(*map(np.array, operands))
        out = empty(300, "f8") if seed else None
        del seen[:]
        x = mgrec.solve_tridiagonal(*operands, out=out)
        assert len(seen) == (seed < 2)  # a call with out is of another kind
        assert out is None or x is out
        assert error(np.array(x), wanted) < 1e-10


def test_scalars_and_shapes_tell_kinds_apart(seen: list[Any]) -> None:
    *_, b = given(300, 0)
    for dl, du in ((1.0, 2.0), (2.0, 1.0), (2.0, 1.0), (0.0, 1.0), (-0.0, 1.0)):
        x = mgrec.solve_tridiagonal(dl, 5.0, du, b)
        assert error(np.array(x), mgrec.solve_tridiagonal(dl, 5.0, du, np.array(b))) < 1e-12
    assert len(seen) == 4 + 5  # NumPy's too


def test_what_is_wrong_in_a_later_call_raises_as_in_a_first(seen: list[Any]) -> None:
    for seed in range(2):
        operands = given(300, seed)
        mgrec.solve_tridiagonal(*operands)
    assert len(seen) == 1
    operands[3][17] = np.nan
    with pytest.raises(ValueError, match=r"b must hold no nan or inf; got nan at index \(17,\)"):
        mgrec.solve_tridiagonal(*operands)
    for at in (100, 120):
        dl, d, du, b = given(300, 5)
        dl[at + 1] = d[at] = du[at - 1] = 0
        with pytest.raises(np.linalg.LinAlgError, match="the system is singular"):
            mgrec.solve_tridiagonal(dl, d, du, b)
        with pytest.raises(np.linalg.LinAlgError, match="the system is singular"):
            mgrec.solve_tridiagonal(dl, d, du, b, periodic=True)
        with pytest.raises(np.linalg.LinAlgError, match="the system is singular"):
            mgrec.factor_tridiagonal(dl, d, du).solve(b)
    out = empty(300, "f8")
    mgrec.solve_tridiagonal(*given(300, 6), out=out)
    operands = given(300, 7)
    with pytest.raises(ValueError, match="out must not share memory with an operand"):
        mgrec.solve_tridiagonal(*operands, out=operands[0])


def test_one_array_twice_is_not_taken_for_two(seen: list[Any]) -> None:
    side, d, _, b = given(300, 0)
    mgrec.solve_tridiagonal(side, d, side, b)
    operands = given(300, 1)
    x = mgrec.solve_tridiagonal(*operands)
    assert error(np.array(x), mgrec.solve_tridiagonal(*map(np.array, operands))) < 1e-12


def test_numpy_arrays_ask_for_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """CuPy may be there where no GPU is."""

    def fail() -> None:
        raise RuntimeError("no CUDA-capable device is detected")

    monkeypatch.setattr(sys.modules["cupy"].cuda.runtime, "getDevice", fail)
    assert mgrec.solve_tridiagonal(0.0, 2.0, 0.0, np.ones(3)).tolist() == [0.5] * 3
