"""CUDA kernels that read and write float16 and bfloat16, run on this machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from chunkings import with_extended
from cuda_on_host import DeviceArray

import mgrec

pytestmark = pytest.mark.usefixtures("on_host")
DTYPES = ["float16", "bfloat16"]
LAYOUTS = {
    "row": ((1, 12_001), 1), "rows": ((5, 2003), 1), "short rows": ((700, 16), 1),
    "few rows": ((9, 3), 1), "channels": ((6000, 3), 0), "shifted channels": ((2, 3001, 7), 1),
    "lines": ((3000, 96), 0), "columns": ((900, 131), 0), "words of columns": ((700, 640), 0),
    "short columns": ((8, 67_600), 0),
}  # fmt: skip


def as_device(array: Any) -> Any:
    return np.ascontiguousarray(array).view(DeviceArray)


def narrow(name: str) -> np.dtype[Any]:
    if name == "float16":
        return np.dtype(np.float16)
    return np.dtype(pytest.importorskip("ml_dtypes").bfloat16)


def random_numbers(dtype: np.dtype[Any], shape: Any, seed: int = 3) -> Any:
    """Return numbers of all exponents, inf and nan."""
    bits = np.random.default_rng(seed).integers(0, 2**16, shape, np.uint16)
    return bits.view(dtype)


def assert_same(found: Any, wanted: Any) -> None:
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(np.array(found, np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize("name", with_extended(DTYPES, "bfloat16"))
def test_numbers_are_read_and_rounded_once(name: str) -> None:
    """A product of two numbers is exact in float32, and often halfway between two numbers."""
    dtype = narrow(name)
    numbers = np.arange(0, 2**16, 13, dtype=np.uint16).view(dtype).reshape(-1, 1)
    factors, zeros = random_numbers(dtype, numbers.shape), np.zeros_like(numbers)
    s, t = np.hstack([zeros, factors]), np.hstack([numbers, zeros])
    w = mgrec.linear_recurrence(as_device(s), as_device(t))
    with np.errstate(all="ignore"):
        product = factors.astype(np.float32) * numbers.astype(np.float32)
        assert_same(w, np.hstack([numbers, product.astype(dtype)]))


@pytest.mark.extended
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "axis"), LAYOUTS.values(), ids=list(LAYOUTS))
@pytest.mark.parametrize("name", DTYPES)
def test_layouts(name: str, shape: Any, axis: int, reverse: bool, on_host: Any) -> None:
    dtype, random = narrow(name), np.random.default_rng(4)
    s, t = random.uniform(-0.9, 0.9, shape).astype(dtype), random.normal(size=shape).astype(dtype)
    out, options = as_device(np.full_like(t, 77)), {"axis": axis, "reverse": reverse}
    one = [slice(None)] * len(shape)
    one[axis] = slice(0, 1)
    for a in (s, 0.5, s[tuple(one)]):
        w = mgrec.linear_recurrence(
            *(as_device(x) if np.ndim(x) else x for x in (a, t)), out=out, **options
        )
        wanted = mgrec.linear_recurrence(a, t, **options).astype(np.float32)
        assert w is out
        # Half a unit of rounding, and the order of the sums.
        unit = 2.0**-8 if name == "bfloat16" else 2.0**-11
        np.testing.assert_allclose(np.array(w, np.float32), wanted, rtol=2 * unit, atol=1e-6)
        assert (np.array(w, np.float32) != wanted).mean() < 0.01
    plain_loop = {"walk_kernel"} if axis == 0 and shape[1] > 50_000 else set()
    kernels = plain_loop or {"determine_kernel", "repair_kernel"}
    assert {kernel for kernel, *_ in on_host.launches} == kernels


@pytest.mark.extended
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", DTYPES)
def test_rows_that_overflow_or_contain_nan(name: str, axis: int) -> None:
    """The repair starts from no rounded state."""
    dtype, shape = narrow(name), (4, 3000)
    s, t = np.full(shape, 1.0, dtype), np.ones(shape, dtype)
    s[0], t[0, 5:] = 2, 0
    s[1, 40:], t[2, 100] = -2, np.nan
    s[3, ::2], s[3, 1::2] = 2.0**14, 2.0**-14
    s, t = (np.moveaxis(x, 1, axis) for x in (s, t))
    w = mgrec.linear_recurrence(as_device(s), as_device(t), axis=axis)
    assert_same(w, mgrec.linear_recurrence(s, t, axis=axis))


@pytest.mark.extended
@pytest.mark.parametrize("name", DTYPES)
def test_other_calls_are_cast(name: str) -> None:
    dtype, random = narrow(name), np.random.default_rng(5)
    t = random.normal(size=(40, 30)).astype(dtype)
    for options in ({"method": "p-scheme"}, {"reset": np.arange(30) % 7 == 0}):
        given = {k: as_device(v) if k == "reset" else v for k, v in options.items()}
        w = mgrec.linear_recurrence(0.5, as_device(t), **given)
        options.pop("method", None)
        assert_same(w, mgrec.linear_recurrence(0.5, t, **options))


@pytest.mark.extended
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", DTYPES)
def test_initial_states(name: str, axis: int) -> None:
    dtype, random = narrow(name), np.random.default_rng(8)
    t, rows = random.normal(size=(5, 300)).astype(dtype), random.normal(size=5).astype(dtype)
    t = np.moveaxis(t, 1, axis)
    for initial in (rows, rows.astype(np.int8), rows[0], 2.0, 3):
        wanted = mgrec.linear_recurrence(0.5, t, initial, axis=axis)
        for state in (initial, as_device(initial) if np.ndim(initial) else initial):
            w = mgrec.linear_recurrence(0.5, as_device(t), state, axis=axis)
            assert w.dtype == wanted.dtype
            numbers = (np.array(x, np.float32) for x in (w, wanted))
            np.testing.assert_allclose(*numbers, rtol=0.01, atol=1e-6)
    wide = mgrec.linear_recurrence(0.5, as_device(t), as_device(rows.astype(np.float32)), axis=axis)
    assert wide.dtype == np.float32
