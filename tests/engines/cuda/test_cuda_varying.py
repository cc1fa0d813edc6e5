"""Kernels of varying filters, run on this machine, against the results of NumPy arrays."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended
from cuda_on_host import DeviceArray

import mgrec
from mgrec.scans.matrix.cuda import segments
from mgrec.signal import lfilter

pytestmark = pytest.mark.usefixtures("on_host")
STEPS = 40
MARKS = np.arange(STEPS) % 17 == 5
extended = pytest.mark.extended


@pytest.fixture(params=with_extended([1, 7, STEPS], 1, STEPS), autouse=True)
def shortest(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of so many steps, in groups of 4."""
    monkeypatch.setattr(segments, "_SHORTEST", request.param)
    monkeypatch.setattr(segments, "GROUP", 4)


def placed(array: Any) -> Any:
    return None if array is None else np.array(array).view(DeviceArray)


def in_chunks(array: Any) -> Any:
    """A Dask array of arrays of a device, in chunks along the axis of steps."""
    chunks = (array.shape[0], (1, 0, 25, 14), *array.shape[2:])
    meta = placed(np.empty((0,) * array.ndim, array.dtype))
    return da.from_array(array, chunks=chunks).map_blocks(placed, meta=meta)


def computed(result: Any) -> Any:
    """The array in host memory: Dask would join chunks of a device by NumPy."""
    assert isinstance(result._meta, DeviceArray)
    meta = np.empty((0,) * result.ndim, result.dtype)
    return result.map_blocks(np.array, meta=meta, dtype=result.dtype).compute(scheduler="sync")


@pytest.mark.parametrize(
    ("order", "form", "is_complex"),
    [
        (2, "transposed", False),
        pytest.param(2, "direct", False, marks=extended),
        pytest.param(3, "transposed", True, marks=extended),
        pytest.param(3, "direct", True, marks=extended),
        pytest.param(20, "transposed", False, marks=extended),
        pytest.param(20, "direct", False, marks=extended),
    ],
)
def test_varying_filters(order: int, form: str, is_complex: bool) -> None:
    generator = np.random.default_rng(order)

    def drawn(*shape: int) -> Any:
        values = generator.uniform(-1, 1, shape)
        return values + 1j * generator.uniform(-1, 1, shape) if is_complex else values

    x, b, zi = drawn(2, STEPS, 3), drawn(1, STEPS, 1, order + 1), drawn(2, order, 1)
    a = 0.8 * drawn(1, STEPS, 1, order + 1) / order
    a[..., 0] = np.where(np.arange(STEPS) % 3, 1.0, 2.0)[:, None]
    for reset in (None, MARKS):
        options = {"axis": 1, "form": form}
        wanted = lfilter(b, a, x, zi=zi, reset=reset, **options)
        options |= {"zi": placed(zi), "reset": placed(reset)}
        results = lfilter(*map(placed, (b, a, x)), **options)
        lazy = lfilter(placed(b[0, :, 0]), *map(in_chunks, (a, x)), **options)
        for result, of_chunks, exact in zip(results, lazy, wanted, strict=True):
            assert isinstance(result, DeviceArray)
            np.testing.assert_allclose(result, exact, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(computed(of_chunks), exact, rtol=1e-12, atol=1e-12)


def test_out_and_constant_coefficients() -> None:
    generator = np.random.default_rng(2)
    x, b = generator.normal(size=(2, STEPS, 3)), generator.normal(size=(STEPS, 3))
    a = generator.uniform(-0.4, 0.4, (STEPS, 3))
    a[:, 0] = 1.0
    out = placed(np.empty(STEPS))
    constant = b[0]  # in host memory
    assert lfilter(constant, placed(a), placed(x[0, :, 0]), out=out) is out
    np.testing.assert_allclose(out, lfilter(constant, a, x[0, :, 0]), rtol=1e-12, atol=1e-13)


@extended
def test_float32() -> None:
    generator = np.random.default_rng(2)
    x, b = (generator.normal(size=size).astype(np.float32) for size in (STEPS, (STEPS, 3)))
    a = generator.uniform(-0.4, 0.4, (STEPS, 3)).astype(np.float32)
    a[:, 0] = 1.0
    np.testing.assert_allclose(
        lfilter(*map(placed, (b, a, x))), lfilter(b, a, x), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("form", ["transposed", pytest.param("direct", marks=extended)])
def test_gradients(form: str) -> None:
    generator = np.random.default_rng(3)
    x, grad = generator.normal(size=(2, 2, STEPS))
    b, zi = generator.normal(size=(STEPS, 3)), generator.normal(size=(2, 2))
    a = generator.uniform(-0.4, 0.4, (2, STEPS, 3)) + 1.0
    for states in (None, zi):
        options = {"form": form, "grad_zf": states}
        y = lfilter(b, a, x, zi=states, form=form)
        y = y if states is None else y[0]
        wanted = mgrec.adjoint.lfilter(grad, y, b, a, x, -1, states, **options)
        options["grad_zf"] = placed(states)
        arrays = map(placed, (grad, y, b, a, x))
        found = mgrec.adjoint.lfilter(*arrays, -1, placed(states), **options)
        for gradient, exact in zip(found, wanted, strict=True):
            if exact is not None:
                np.testing.assert_allclose(gradient, exact, rtol=1e-11, atol=1e-11)
