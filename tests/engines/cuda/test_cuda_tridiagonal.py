"""CUDA kernels of tridiagonal systems, run on this machine by public calls, against NumPy's."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from banded_systems import block_system
from cuda_on_host import DeviceArray, HostCompiler, empty, use_device
from tridiagonal_matrices import dominant

import mgrec
from mgrec.engines.cuda.device import Device
from mgrec.tridiagonal.cuda import nopivot, phases
from mgrec.tridiagonal.cuda.phases import differentiate

pytestmark = pytest.mark.extended

STUDY = Path(__file__).parents[3] / "benchmarks/papers/pogorelskih_2019/kernels.py"
_spec = importlib.util.spec_from_file_location("kernels", STUDY)
assert _spec is not None
assert _spec.loader is not None
kernels = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(kernels)


@pytest.fixture(autouse=True)
def _on_host(on_host: HostCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    use_device(monkeypatch, Device(90, 2, 227 * 1024))


def draw(shape: tuple[int, ...], dtype: str, seed: int = 0) -> list[Any]:
    generator = np.random.default_rng(seed)
    parts = generator.normal(size=(4, *shape))
    if np.dtype(dtype).kind == "c":
        parts = parts + 1j * generator.normal(size=(4, *shape))
    return [part.astype(dtype) for part in parts]


def on_device(operands: list[Any]) -> list[Any]:
    return [np.ascontiguousarray(part).view(DeviceArray) for part in operands]


def solve(operands: list[Any], **options: Any) -> Any:
    given = {"axis": 1, "check_finite": False} | options
    result = mgrec.solve_tridiagonal(*on_device(operands), **given)
    assert isinstance(result, DeviceArray)
    return np.asarray(result)


def in_chunks(operands: list[Any], sizes: tuple[int, ...], **options: Any) -> Any:
    """Solve in chunks along the systems."""
    lazy = []
    for part in on_device(operands):
        chunks = (part.shape[0], sizes if part.shape[1] > 1 else 1, part.shape[2])
        blocks = da.from_array(np.asarray(part), chunks=chunks)
        meta = part[:0, :0, :0]
        lazy.append(blocks.map_blocks(lambda block: on_device([block])[0], meta=meta))
    result = mgrec.solve_tridiagonal(*lazy, **{"axis": 1, "check_finite": False} | options)
    assert isinstance(result._meta, DeviceArray)
    result = result.map_blocks(np.array, meta=np.empty((0, 0, 0), result.dtype))
    return result.compute(scheduler="sync")


def error(x: Any, wanted: Any) -> float:
    return float(np.linalg.norm(x - wanted) / np.linalg.norm(wanted))


# One window of many systems, of one; several with a halo; columns, whole and with a halo.
WINDOWED = [
    (1, 1, 1),
    (3, 2, 1),
    (70, 5, 1),
    (1, 17, 1),
    (1, 18, 1),
    (140, 64, 1),
    (5, 101, 1),
    (3, 4095, 1),
    (1, 20_001, 1),
    (3, 9_000, 1),
    (2, 300, 11),
    (3, 20, 5),
    (1, 2_500, 9),
]


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_systems_that_forget_are_read_once(dtype: str, on_host: HostCompiler) -> None:
    for number, shape in enumerate(WINDOWED):
        operands = draw(shape, dtype, number)
        operands = [operands[0] / 4, operands[1] / 4 + 6, operands[2] / 4, operands[3]]
        operands = [np.ascontiguousarray(part, dtype) for part in operands]
        if number % 3 == 1:
            operands[0] = np.full((1, 1, 1), 0.7, dtype)
            operands[2] = operands[2][:1]
        on_host.launches.clear()
        x = solve(operands)
        assert {name for name, *_ in on_host.launches} == {"window_kernel"}
        wanted = mgrec.solve_tridiagonal(*operands, axis=1)
        assert error(x, wanted) < 4 * np.finfo(dtype).eps, shape


@pytest.mark.parametrize("is_dominant", [False, True])
@pytest.mark.parametrize("k", [1, 2, 4, 5])
def test_dominant_blocks_of_at_most_4_are_read_once(k: int, is_dominant: bool, on_host: HostCompiler) -> None:
    dl, d, du, b = block_system(40, k)
    on_host.launches.clear()
    mgrec.solve_block_tridiagonal(*on_device([dl, d if is_dominant else d[:, ::-1], du, b]))
    is_read_once = {name for name, *_ in on_host.launches} == {"window_kernel"}
    assert is_read_once == (k <= 4 and (is_dominant or k == 1))


# 32 rows at each end of a chunk, more, and as many as ends may have.
@pytest.mark.parametrize(("sizes", "inner"), [((2_053, 5_000, 65_601), 1), ((2_053, 4_000), 3)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_one_kernel_reduces_both_ends_of_a_chunk(
    dtype: str, sizes: tuple[int, ...], inner: int, on_host: HostCompiler
) -> None:
    operands = draw((1, sum(sizes), inner), dtype)
    operands = [operands[0] / 4, operands[1] / 4 + 6, operands[2] / 4, operands[3]]
    operands[0] = np.full((1, 1, 1), 0.7)
    operands = [np.ascontiguousarray(part, dtype) for part in operands]
    x = in_chunks(operands, sizes, check_finite=True)
    assert {name for name, *_ in on_host.launches} == {"reduce_short_kernel", "window_kernel"}
    wanted = mgrec.solve_tridiagonal(*operands, axis=1)
    assert error(x, wanted) < 4 * np.finfo(dtype).eps


@pytest.mark.parametrize("shape", [(1, 20_000, 1), (3, 1000, 1), (2, 300, 11)])
def test_others_are_solved_with_pivoting(shape: tuple[int, int, int]) -> None:
    operands = draw(shape, "f4")
    np.testing.assert_array_equal(solve(operands), solve(operands, method="partition"))
    # As dominant as can be, and remembering: as many windows fail as do not hold whole lines.
    operands = [np.full(shape, value, "f4") for value in (-1, 2.0001, -1, 1)]
    wanted = mgrec.solve_tridiagonal(*(part.astype("f8") for part in operands), axis=1)
    assert error(solve(operands), wanted) < 1e-3


# --- without pivoting ---------------------------------------------------------------------------


def pcr_of_3_blocks(shape: Any, dtype: Any, device: Device) -> nopivot.LaunchPlan:
    plan = nopivot.pcr_none(shape, dtype, device)
    launches = (replace(launch, blocks=3, threads=32) for launch in plan.launches)
    return replace(plan, launches=tuple(launches))


METHODS = [*phases.WITHOUT_PIVOTING]
# Of the study, beside those that the methods choose.
VARIANTS = {
    "thomas in memory": kernels.thomas_in_memory,
    "sericr stored": kernels.STORED[False],
    "sericr stored, shared": kernels.STORED[True],
    "sericr again": kernels.RECOMPUTED[False],
    "sericr again, shared": kernels.RECOMPUTED[True],
    "pcr all": nopivot.pcr_all,
    "pcr part": nopivot.pcr_part,
    "pcr none": nopivot.pcr_none,
    "pcr of 3 blocks": pcr_of_3_blocks,
}
# Tiles have 32 or 16 rows of 32 systems; contiguous systems, columns, and few columns of many.
WHOLE = [
    *((3, n, 1) for n in (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 70)),
    (40, 33, 1),
    (1, 1000, 1),
    (1, 4095, 1),
    (1, 1, 5),
    (1, 2, 3),
    (2, 70, 33),
    (5, 37, 3),
]


def assert_close(x: Any, wanted: Any, message: str = "") -> None:
    atol = 30 * np.finfo(wanted.dtype).eps
    np.testing.assert_allclose(x, wanted, rtol=0, atol=atol, err_msg=message)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_every_shape_without_pivoting(variant: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Method "thomas" is a variant."""
    monkeypatch.setitem(phases.WITHOUT_PIVOTING, "thomas", VARIANTS[variant])
    for number, shape in enumerate(WHOLE):
        if variant in ("pcr all", "pcr part") and shape[1] > 1000:
            continue  # more than a block has
        operands = dominant(shape, dtype=dtype, seed=number)
        if number % 3 == 1:
            operands[0], operands[2] = np.full((1, 1, 1), 0.7, dtype), operands[2][:1]
        if number % 3 == 2:
            operands[1], operands[3] = operands[1][:, :1], operands[3][:, :, :1]
        wanted = mgrec.solve_tridiagonal(*operands, axis=1)
        operands[3] = np.broadcast_to(operands[3], shape)
        assert_close(solve(operands, method="thomas"), wanted, str(shape))


@pytest.mark.parametrize("dtype", ["f8", "c8"])
@pytest.mark.parametrize("method", METHODS)
def test_methods_choose_memory_by_what_a_device_has(
    method: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    operands = dominant((2, 300, 1), dtype=dtype)
    wanted = mgrec.solve_tridiagonal(*operands, axis=1)
    for shared_bytes in (12_000, 1_000):
        use_device(monkeypatch, Device(90, 2, shared_bytes))
        assert_close(solve(operands, method=method), wanted)


# --- prepared calls -----------------------------------------------------------------------------


def given(n: int, seed: int, dominant: float = 6.0) -> list[Any]:
    dl, d, du, b = (part[0, :, 0] for part in draw((1, n, 1), "f8", seed))
    return [part.view(DeviceArray) for part in (dl, d / 8 + dominant, du, b)]


@pytest.mark.parametrize("dominant", [6.0, 0.0])
def test_calls_are_prepared_once(solved: list[Any], dominant: float) -> None:
    for seed in range(3):
        operands = given(300, seed, dominant)
        wanted = mgrec.solve_tridiagonal(*map(np.array, operands))
        out = empty(300, "f8") if seed else None
        del solved[:]
        x = mgrec.solve_tridiagonal(*operands, out=out)
        assert len(solved) == (seed < 2)  # a call with out is of another kind
        assert out is None or x is out
        assert error(np.array(x), wanted) < 1e-10


def test_scalars_are_those_of_each_call() -> None:
    *_, b = given(300, 0)
    for dl, du in ((1.0, 2.0), (2.0, 1.0), (2.0, 1.0), (0.0, 1.0), (-0.0, 1.0)):
        x = mgrec.solve_tridiagonal(dl, 5.0, du, b)
        assert error(np.array(x), mgrec.solve_tridiagonal(dl, 5.0, du, np.array(b))) < 1e-12


def test_one_array_twice_is_not_taken_for_two() -> None:
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


def test_windows_do_not_differentiate_systems_that_need_pivoting() -> None:
    dl, d, du, b = on_device(draw((3, 40), "f8"))
    arrays, results = [b, b, dl, 1e-3 * d, du], [empty(b.shape, b.dtype) for _ in range(4)]
    addresses, targets = ([x.data.ptr for x in some] for some in (arrays, results))
    assert not differentiate(b.shape, b.dtype, 0, addresses, targets)
