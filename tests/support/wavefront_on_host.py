"""Wavefront loops over arrays of a device, launched on this machine; what their tests share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda_on_host import DeviceArray, HostCompiler, run_on_host, use_kernels

import mgrec
from mgrec.grids.cuda import transposition
from mgrec.grids.loops.cuda import choice, operands, phases, program
from mgrec.solve import prepared

Array = np.ndarray[Any, Any]
PAIRS = [("+", "*"), ("max", "+"), ("min", "+"), ("+", "+")]
STRATEGIES = [
    "tiles", "compensation", pytest.param("hyperplane", marks=pytest.mark.extended)
]  # fmt: skip
each_strategy = pytest.mark.parametrize("strategy", STRATEGIES)


def on_device(array: Any) -> Any:
    return np.asarray(array).view(DeviceArray)


def launched_here(compiler: HostCompiler, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let public calls of arrays of a device run their launches here, while a test runs."""
    run_on_host(monkeypatch, compiler, operands)
    monkeypatch.setitem(sys.modules, "cupy.lib.stride_tricks", np.lib.stride_tricks)
    use_kernels(monkeypatch, phases.kernels(""))
    # One program of each kind: building takes longer than running.
    monkeypatch.setattr(choice, "_ROWS_OF_A_LANE", (2,))
    monkeypatch.setattr(choice, "_WARPS_OF_A_BLOCK", (1,))
    forget()
    yield
    forget()


def forget() -> None:
    """Forget what was prepared for other devices, and calls of a kind."""
    program.prepare_launch.cache_clear()
    transposition._prepare_copy.cache_clear()
    prepared.cache_entry.cache_clear()


def numbers(shape: Any, dtype: str = "f4", seed: int = 0) -> Array:
    return (np.random.default_rng(seed).normal(size=shape) * 5).astype(dtype)


def weights_of(shape: tuple[int, ...], dtype: str = "f4") -> tuple[Array, ...]:
    """An array, a row and a column."""
    *_, rows, columns = shape
    shapes = shape, (columns,), (rows, 1)
    return tuple((numbers(own, "f8", k) / 9).astype(dtype) for k, own in enumerate(shapes, 1))


def on_gpu(value: Any) -> Any:
    return on_device(value) if isinstance(value, np.ndarray) and value.ndim else value


def run(local: Array, **options: Any) -> Array:
    given = {name: on_gpu(value) for name, value in options.items()}
    given["weights"] = tuple(map(on_gpu, options["weights"]))
    result = mgrec.wavefront(on_gpu(local), **given)
    assert isinstance(result, DeviceArray)
    return np.asarray(result)


def check(local: Array, strategy: str, **options: Any) -> None:
    """The bits of the loop, but for floats that may go by compensation: within the stated bound."""
    result = run(local, strategy=strategy, **options)
    wanted = mgrec.wavefront(local, strategy="tiles", **options)
    assert result.dtype == wanted.dtype
    if strategy in ("tiles", "hyperplane") or wanted.dtype.kind == "i":
        np.testing.assert_array_equal(result, wanted)
    else:
        assert_is_near(result, wanted, size_of(local, **options), options.get("axes", (-2, -1)))


def size_of(local: Array, weights: Any, operators: Any = ("+", "*"), **options: Any) -> Array:
    """W of the stated bound: the loop over what is finite, without signs."""
    pair = ("max" if operators[0] == "min" else operators[0], operators[1])
    borders = {name: options.pop(name, 0) for name in ("above", "left", "corner")}
    options = {name: sizes(value) for name, value in borders.items()} | options
    return mgrec.wavefront(
        sizes(local), weights=tuple(map(sizes, weights)), operators=pair, **options
    )


def sizes(values: Any) -> Array:
    return np.abs(np.nan_to_num(np.asarray(values, "f8"), posinf=0, neginf=0))


def assert_is_near(result: Array, wanted: Array, size: Array, axes: tuple[int, int]) -> None:
    for same in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(same(result), same(wanted))
    at = np.isfinite(wanted)
    steps = sum(wanted.shape[axis] for axis in axes)
    bound = 8 * steps * np.finfo(wanted.dtype).eps / 2 * size
    assert (abs(result[at].astype("f8") - wanted[at]) <= bound[at]).all()
