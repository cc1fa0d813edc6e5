"""Kernels of filters of images, run on this machine, against those of NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from chunkings import with_extended
from cuda_on_host import DeviceArray, use_device

from mgrec.engines.cuda.device import Device
from mgrec.ndimage import (
    cuda,
    gaussian_filter,
    gaussian_filter1d,
    spline_filter,
    spline_filter1d,
    uniform_filter,
    uniform_filter1d,
)
from mgrec.ndimage.axes import filter_axis
from mgrec.ndimage.exponentials import ExponentialFilter
from mgrec.ndimage.kernels import gaussian_kernel, spline_kernel
from mgrec.ndimage.uniform import WindowAverage

# Rows of one segment, of several, of a last one of one sample; columns of as many; short lines.
SHAPES = [
    ((700,), 0), ((3, 512), 1), ((2, 1025), 1), ((300, 40), 0), ((2, 130, 3), 1), ((129, 33), 0),
    ((40, 5), 1), ((5,), 0), ((1,), 0), ((1, 20_000), 1),
]  # fmt: skip
MODES = ["reflect", "mirror", "wrap", "nearest", "constant"]
extended = pytest.mark.extended
DTYPES = ["?", "u1", "i2", "i8", "u8", "f4", "f8", "c8", "c16"]


pytestmark = pytest.mark.usefixtures("on_host")


def numbers(shape: Any, dtype: str = "f8") -> Any:
    values = np.random.default_rng(sum(shape)).uniform(-1, 1, (2, *shape))
    if np.dtype(dtype).kind == "c":
        return (values[0] + 1j * values[1]).astype(dtype)
    scale = 1 if np.dtype(dtype).kind == "f" else 100
    return (scale * (values[0] if scale == 1 else abs(values[0]))).astype(dtype)


def join_as_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let arrays that NumPy concatenates be arrays of the device."""
    monkeypatch.setattr(DeviceArray, "__array_priority__", 1.0)


def check(function: Any, x: Any, *arguments: Any, ulps: float = 4, **options: Any) -> None:
    """The results of a NumPy array, up to some units in the last place of the largest one."""
    wanted = function(x, *arguments, **options)
    result = function(x.view(DeviceArray), *arguments, **options)
    assert type(result) is DeviceArray
    assert result.dtype == wanted.dtype
    result = np.asarray(result)
    if wanted.dtype.kind in "iub":
        np.testing.assert_array_equal(result, wanted)
    else:
        real = wanted.real.dtype.type
        atol = ulps * np.spacing(real(max(1, abs(wanted).max())))
        np.testing.assert_allclose(result, wanted, rtol=0, atol=atol)


@pytest.mark.parametrize("order", with_extended([3, 4], 4))
def test_splines_of_every_shape(order: int) -> None:
    for shape, axis in SHAPES:
        for mode in ("mirror", "reflect", "grid-wrap"):
            check(spline_filter1d, numbers(shape), order, axis, mode=mode)


@pytest.mark.parametrize(
    ("sigma", "order"),
    [(4, 1), *(pytest.param(*case, marks=extended) for case in [(50, 0), (0.05, 2)])],
)
def test_gaussians_of_every_shape(sigma: float, order: int) -> None:
    for shape, axis in SHAPES:
        for mode in MODES[:: 1 if shape == (700,) else 2]:
            # The exponentials of a Gaussian have larger weights than their sum.
            options = {"order": order, "mode": mode, "cval": 0.5}
            check(gaussian_filter1d, numbers(shape), sigma, axis, ulps=12, **options)


@pytest.mark.parametrize(
    "dtype", [k if k == "i2" else pytest.param(k, marks=extended) for k in DTYPES]
)
def test_every_dtype(dtype: str) -> None:
    x = numbers((150, 140), dtype)
    for output in ("c8", "c16") if x.dtype.kind == "c" else ("f4", "f8"):
        check(spline_filter, x, output=output)
    check(gaussian_filter, x, (2, 3), ulps=12, mode="constant", cval=2)
    check(uniform_filter, x, (4, 5), mode="constant", cval=2.5)
    check(uniform_filter, np.ascontiguousarray(x.T)[:, ::2], 20)


@pytest.mark.parametrize(
    ("size", "shapes", "modes"),
    [
        (100, SHAPES[1:4:2], ["mirror", "constant"]),
        *(pytest.param(k, SHAPES, MODES, marks=extended) for k in (1, 2, 3, 7, 16, 51, 100, 500)),
    ],
)
def test_averages_of_every_shape(size: int, shapes: Any, modes: list[str]) -> None:
    for shape, axis in shapes:
        for mode in modes:
            options = {"mode": mode, "origin": size // 3, "cval": 0.5}
            check(uniform_filter1d, numbers(shape), size, axis, ulps=size, **options)
            check(uniform_filter1d, numbers(shape, "u1"), size, axis, **options)


def test_wide_windows_do_not_need_memory_of_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    use_device(monkeypatch, Device(90, 100, 1000))
    join_as_device(monkeypatch)
    for shape, axis in SHAPES[:5]:
        check(uniform_filter1d, numbers(shape), 90, axis, ulps=90)


FILTERS = [
    ExponentialFilter(spline_kernel(5), "wrap"),
    ExponentialFilter(gaussian_kernel(3, 0), "constant", 0.5),
    ExponentialFilter(gaussian_kernel(90, 1), "mirror"),
    WindowAverage(51, 20, "reflect"),
]


@pytest.mark.parametrize("axis_filter", FILTERS, ids=lambda axis_filter: type(axis_filter).__name__)
def test_chunks_have_the_results_of_the_whole(
    axis_filter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    join_as_device(monkeypatch)
    for shape, axis in SHAPES[:5]:
        x, size = numbers(shape), shape[axis]
        wanted = filter_axis(axis_filter, x, axis, x.dtype)
        cuts = sorted({0, 1, size // 3, size // 3 + 130, size} & set(range(size + 1)))
        lengths = np.diff(cuts).tolist()
        chunks = [chunk.view(DeviceArray) for chunk in np.split(x, cuts[1:-1], axis)]
        for k, chunk in enumerate(chunks):
            names, recipe = axis_filter.plan(lengths, k)
            parts = [axis_filter.part(chunks[source], axis, part) for source, part in names]
            result = axis_filter.apply(chunk, axis, x.dtype, recipe, parts)
            part = np.take(wanted, range(cuts[k], cuts[k + 1]), axis)
            assert abs(np.asarray(result) - part).max() <= 1e-14


def test_a_nan_makes_its_line_nan_and_no_other() -> None:
    for value in (np.nan, np.inf, -np.inf):
        for shape, axis in (((3, 1500), 1), ((700, 40), 0)):
            x = np.moveaxis(numbers(shape), axis, 0)
            x[600, 2] = value
            x = np.ascontiguousarray(np.moveaxis(x, 0, axis)).view(DeviceArray)
            for result in (spline_filter1d(x, 3, axis), gaussian_filter1d(x, 2, axis)):
                lines = np.isnan(np.moveaxis(np.asarray(result), axis, 0))
                assert lines[:, 2].all()
                assert lines.sum() == lines.shape[0]
            averages = np.moveaxis(np.asarray(uniform_filter1d(x, 5, axis)), axis, 0)
            assert (~np.isfinite(averages)).sum() == 5
            assert not np.isfinite(averages[598:603, 2]).any()


def test_calls_of_a_signature_are_prepared_once() -> None:
    x = numbers((50, 40)).view(DeviceArray)
    for _ in range(3):
        gaussian_filter(x, 2)
        uniform_filter(x, 3)
    assert cuda._prepare.cache_info().misses == 2
    assert cuda._prepare_windows.cache_info().misses == 2
    gaussian_filter(x, 3)
    assert cuda._prepare.cache_info().misses == 4
