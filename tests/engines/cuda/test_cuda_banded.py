"""CUDA kernels of banded systems, run on this machine by public calls, against NumPy's."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from cuda_on_host import DeviceArray, HostCompiler

import mgrec
from mgrec.banded import cuda

pytestmark = pytest.mark.extended


@pytest.fixture(autouse=True)
def _on_host(on_host: HostCompiler) -> None:
    """Run all kernels here."""


def draw(lower: int, upper: int, shape: tuple[int, ...], dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return random diagonals, the main one dominant, and right-hand sides."""
    generator = np.random.default_rng(5)
    parts = generator.uniform(-1, 1, (2, *shape[:-1], lower + upper + 2, shape[-1]))
    numbers = parts[0] + 1j * parts[1] if np.dtype(dtype).kind == "c" else parts[0]
    numbers[..., upper, :] += 1.5 * (lower + upper + 1)
    return numbers[..., :-1, :].astype(dtype), numbers[..., -1, :].astype(dtype)


def on_device(*arrays: np.ndarray) -> list[DeviceArray]:
    return [np.ascontiguousarray(array).view(DeviceArray) for array in arrays]


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("widths", [(0, 0), (1, 2), (4, 4)])
def test_systems(widths: tuple[int, int], dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "MAX_CELLS", 3)
    for shape in ((1,), (7,), (128,), (129,), (9000,), (3, 700), (2100, 9)):
        ab, b = draw(*widths, shape, dtype)
        x = mgrec.solve_banded(widths, *on_device(ab, b))
        assert isinstance(x, DeviceArray)
        wanted = mgrec.solve_banded(widths, ab, b)
        assert abs(np.asarray(x) - wanted).max() < 30 * np.finfo(dtype).eps * abs(wanted).max(), shape


@pytest.mark.parametrize("dtype", ["f4", "c16"])
def test_chunks(dtype: str) -> None:
    ab, b = draw(2, 3, (2, 500), dtype)
    lazy = []
    for part in (ab, b):
        blocks = da.from_array(part, chunks=(*part.shape[:-1], (3, 200, 297)))
        meta = on_device(part[:0])[0]
        lazy.append(blocks.map_blocks(lambda block: on_device(block)[0], meta=meta))
    x = mgrec.solve_banded((2, 3), *lazy)
    x = x.map_blocks(np.array, meta=np.empty((0, 0), dtype)).compute(scheduler="sync")
    wanted = mgrec.solve_banded((2, 3), ab, b)
    assert abs(x - wanted).max() < 30 * np.finfo(dtype).eps * abs(wanted).max()


@pytest.mark.parametrize("n", [40, 3000])
def test_errors_name_the_system(n: int) -> None:
    ab, b = draw(2, 2, (3, n), "f8")
    ab[1, :, n // 2] = 0
    with pytest.raises(np.linalg.LinAlgError, match=r"system \(1,\) is singular"):
        mgrec.solve_banded((2, 2), *on_device(ab, b))
    ab[1, 3, n // 2] = np.nan
    with pytest.raises(ValueError, match="diagonal -1 of ab must hold no nan"):
        mgrec.solve_banded((2, 2), *on_device(ab, b))
    x = mgrec.solve_banded((2, 2), *on_device(ab, b), check_finite=False)
    assert np.isnan(np.asarray(x)).sum(-1).tolist() == [0, n, 0]


def draw_blocks(k: int, shape: tuple[int, ...], dtype: str, is_dominant: bool = True) -> list[np.ndarray]:
    """Return random blocks and right-hand sides. Other blocks are dominant once rows are exchanged."""
    generator = np.random.default_rng(k)
    parts = generator.uniform(-1, 1, (2, 3, *shape, k, k))
    numbers = parts[0] + 1j * parts[1] if np.dtype(dtype).kind == "c" else parts[0]
    numbers[1] += 4 * k * np.eye(k)[:: 1 if is_dominant else -1]
    b = generator.uniform(-1, 1, (*shape, k))
    return [array.astype(dtype) for array in (*numbers, b)]


@pytest.mark.parametrize(("k", "dtype"), [(1, "f4"), (2, "f8"), (2, "c8"), (3, "f4"), (4, "c16"), (8, "f8")])
@pytest.mark.parametrize("is_dominant", [False, True])
def test_blocks(
    k: int, dtype: str, is_dominant: bool, on_host: HostCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "MAX_CELLS", 3)
    for shape in ((1,), (2,), (40,), (1500,), (3, 200)):
        operands = draw_blocks(k, shape, dtype, is_dominant)
        operands[0] = operands[0][..., :1, :, :]
        on_host.launches.clear()
        x = mgrec.solve_block_tridiagonal(*on_device(*operands))
        assert isinstance(x, DeviceArray)
        is_read_once = {name for name, *_ in on_host.launches} == {"window_kernel"}
        assert is_read_once == (k <= 4 and (is_dominant or k == 1))
        wanted = mgrec.solve_block_tridiagonal(*operands)
        assert abs(np.asarray(x) - wanted).max() < 30 * np.finfo(dtype).eps * abs(wanted).max(), shape


def test_chunks_of_blocks() -> None:
    operands = draw_blocks(2, (2, 700), "f8")
    lazy = []
    for part in operands:
        blocks = da.from_array(part, chunks=(2, (3, 300, 397), *part.shape[2:]))
        meta = on_device(part[:0])[0]
        lazy.append(blocks.map_blocks(lambda block: on_device(block)[0], meta=meta))
    x = mgrec.solve_block_tridiagonal(*lazy)
    x = x.map_blocks(np.array, meta=np.empty((0, 0, 0))).compute(scheduler="sync")
    np.testing.assert_allclose(x, mgrec.solve_block_tridiagonal(*operands), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("n", [30, 1500])
def test_errors_name_the_system_of_blocks(n: int) -> None:
    operands = draw_blocks(2, (3, n), "f8")
    for array in operands[:3]:
        array[1, n // 2] = 0
    with pytest.raises(np.linalg.LinAlgError, match=r"system \(1,\) is singular"):
        mgrec.solve_block_tridiagonal(*on_device(*operands))
    operands[0][1, n // 2, 1, 1] = np.nan
    with pytest.raises(ValueError, match="dl must hold no nan"):
        mgrec.solve_block_tridiagonal(*on_device(*operands))
    x = mgrec.solve_block_tridiagonal(*on_device(*operands), check_finite=False)
    assert np.isnan(np.asarray(x)).sum((-2, -1)).tolist() == [0, 2 * n, 0]
