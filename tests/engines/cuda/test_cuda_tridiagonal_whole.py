"""Kernels of whole systems without pivoting, run on this machine, against those of the CPU."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_on_host import HostArray, HostCompiler, as_device, poisoned, run_on_host
from tridiagonal_matrices import dominant

import mgrec
from mgrec.core.arrays.chunk import Chunk
from mgrec.engines.cuda.device import Device
from mgrec.tridiagonal.cuda import nopivot, phases
from mgrec.tridiagonal.errors import SingularSystemError

pytestmark = pytest.mark.extended

STUDY = Path(__file__).parents[3] / "benchmarks/papers/pogorelskih_2019/kernels.py"
_spec = importlib.util.spec_from_file_location("kernels", STUDY)
assert _spec is not None
assert _spec.loader is not None
kernels = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(kernels)


def pcr_of_3_blocks(shape: Any, dtype: Any, device: Device) -> nopivot.Plan:
    plan = nopivot.pcr_none(shape, dtype, device)
    launches = (replace(launch, blocks=3, threads=32) for launch in plan.launches)
    return replace(plan, launches=tuple(launches))


# Of the study, beside those that the methods choose.
VARIANTS = {
    **phases.WITHOUT_PIVOTING,
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
SHAPES = [
    *((3, n, 1) for n in (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 70)),
    (40, 33, 1), (1, 1000, 1), (1, 4095, 1), (1, 1, 5), (1, 2, 3), (2, 70, 33), (5, 37, 3),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _on_host(compiler: HostCompiler, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the launches run here, over NumPy arrays."""
    device = Device(90, 2, 227 * 1024)
    run_on_host(monkeypatch, compiler, phases, array=HostArray, device=device)
    nopivot._prepare.cache_clear()
    yield
    nopivot._prepare.cache_clear()


def use(monkeypatch: pytest.MonkeyPatch, shared_bytes: int) -> None:
    """Pretend that a device has so much shared memory."""
    monkeypatch.setattr(Device, "current", staticmethod(lambda: Device(90, 2, shared_bytes)))
    nopivot._prepare.cache_clear()


def solve(variant: str, operands: list[Any], is_finite: bool = True) -> Any:
    shape = np.broadcast_shapes(*(part.shape for part in operands))
    result = poisoned(shape, operands[3].dtype).view(HostArray)
    chunk = Chunk(tuple(map(as_device, operands)), shape, operands[3].dtype)
    assert nopivot.solve_whole(VARIANTS[variant], chunk, result) == is_finite
    return np.asarray(result)


def close(dtype: Any) -> dict[str, Any]:
    return {"rtol": 0, "atol": 30 * np.finfo(dtype).eps}


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_shape(variant: str, dtype: str) -> None:
    for number, shape in enumerate(SHAPES):
        if variant in ("pcr all", "pcr part") and shape[1] > 1000:
            continue  # more than a block has
        operands = dominant(shape, dtype=dtype, seed=number)
        if number % 3 == 1:
            operands[0], operands[2] = np.full((1, 1, 1), 0.7, dtype), operands[2][:1]
        if number % 3 == 2:
            operands[1], operands[3] = operands[1][:, :1], operands[3][:, :, :1]
        wanted = mgrec.solve_tridiagonal(*operands, axis=1)
        x = solve(variant, [*operands[:3], np.broadcast_to(operands[3], shape)])
        np.testing.assert_allclose(x, wanted, **close(dtype), err_msg=str(shape))


@pytest.mark.parametrize("dtype", ["f8", "c8"])
@pytest.mark.parametrize("variant", phases.WITHOUT_PIVOTING)
def test_methods_choose_memory_by_what_a_device_has(
    variant: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    operands = dominant((2, 300, 1), dtype=dtype)
    wanted = mgrec.solve_tridiagonal(*operands, axis=1)
    use(monkeypatch, 12_000)
    np.testing.assert_allclose(solve(variant, operands), wanted, **close(dtype))
    use(monkeypatch, 1_000)
    np.testing.assert_allclose(solve(variant, operands), wanted, **close(dtype))


@pytest.mark.parametrize("shape", [(5, 70, 1), (1, 70, 5)])
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_number_of_a_singular_system_is_told(variant: str, shape: Any) -> None:
    for at in (0, 33, 69):
        operands = dominant(shape)
        for part in operands[:3]:
            np.moveaxis(part, 1, -1).reshape(5, 70)[3, at] = 0
        operands = [np.ascontiguousarray(part) for part in operands]
        with pytest.raises(SingularSystemError) as raised:
            solve(variant, operands)
        assert raised.value.number == 3


@pytest.mark.parametrize("special", [np.nan, -np.inf])
@pytest.mark.parametrize("variant", VARIANTS)
def test_nan_and_inf_stay_in_their_system(variant: str, special: float) -> None:
    expected = solve(variant, dominant((3, 70, 2)))
    for number, at in enumerate((1, 33, 68, 34)):
        operands = dominant((3, 70, 2))
        operands[number][1, at, 1] = special
        x = solve(variant, operands, is_finite=False)
        assert np.isnan(x[1, :, 1]).all()
        x[1, :, 1] = expected[1, :, 1]
        np.testing.assert_array_equal(x, expected)
