"""The adjoint of linear recurrences of CuPy arrays without a shifted copy, run on this machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_on_host import DeviceArray, empty

import mgrec
from mgrec import adjoint
from mgrec.engines.cuda import backend
from mgrec.scans import adjoint as scans
from mgrec.solve import prepared

pytestmark = pytest.mark.usefixtures("on_host")


def as_device(array: Any) -> Any:
    return np.ascontiguousarray(array).view(DeviceArray)


@pytest.mark.parametrize(
    ("shape", "axis", "reverse"),
    [
        *(
            pytest.param(*case, reverse, marks=pytest.mark.extended)
            for case in [((5000,), 0), ((2, 40, 3), 1), ((1, 3), 1), ((40, 2), 1)]
            for reverse in (False, True)
        ),
        pytest.param((3, 2001), 1, True, marks=pytest.mark.extended),
        ((3, 2001), 1, False),
    ],
)
def test_nothing_of_another_row_is_read(shape: Any, axis: int, reverse: bool) -> None:
    random = np.random.default_rng(5)
    s, t, g = random.uniform(-1, 1, (3, *shape))
    # The first coefficient of a row multiplies no state without an initial one.
    first = (slice(None),) * axis + (-1 if reverse else 0,)
    options = {"axis": axis, "reverse": reverse}
    w = mgrec.linear_recurrence(s, t, **options)
    expected = adjoint.linear_recurrence(g, w, s, t, **options)[:2]
    hostile = s.copy()
    hostile[first] = np.where(
        np.arange(hostile[first].size).reshape(hostile[first].shape) % 2, np.inf, np.nan
    )
    arrays = [as_device(x) for x in (g, w, hostile, t)]
    found = adjoint.linear_recurrence(*arrays, **options)[:2]
    for own, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.array(own), wanted, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("reverse", [False, pytest.param(True, marks=pytest.mark.extended)])
@pytest.mark.parametrize(
    ("shape", "axis", "dtype"),
    [
        ((3, 2001), 1, "f4"),
        *(
            pytest.param(*case, marks=pytest.mark.extended)
            for case in [
                ((5000,), 0, "f8"),
                ((2, 40, 3), 1, "f4"),
                ((1, 3), 1, "f8"),
                ((40, 2), 1, "f4"),
                ((3, 2001), 1, "f2"),
            ]
        ),
    ],
)
def test_prepared_calls_of_addresses(shape: Any, axis: int, dtype: str, reverse: bool) -> None:
    """Gradients of tensors are computed so, after the first ones of their shape."""
    prepared._cached_call.cache_clear()
    random = np.random.default_rng(7)
    options = {"axis": axis, "reverse": reverse}
    arrays, targets = [empty(shape, dtype) for _ in range(3)], [empty(shape, dtype) for _ in "st"]
    addresses, results = ([x.data.ptr for x in some] for some in (arrays, targets))
    if any(address % 16 for address in (*addresses, *results)):
        pytest.skip("memory of NumPy is not aligned")
    given = backend.BACKEND, shape, np.dtype(dtype), 0, addresses, results, options
    assert not scans._differentiate_at(*given)
    for _ in range(2):
        for array in arrays:
            array[...] = random.uniform(-1, 1, shape)
        grad, w, s = arrays
        expected = adjoint.linear_recurrence(grad, w, s, w, **options)[:2]
        assert scans._differentiate_at(*given)
        for own, wanted in zip(targets, expected, strict=True):
            np.testing.assert_array_equal(np.array(own), np.array(wanted))
    prepared._cached_call.cache_clear()


def test_products_of_coefficients_overflow() -> None:
    """The repair, too, reads nothing of another row."""
    s, g = np.full((2, 3000), 2.0, np.float32), np.zeros((2, 3000), np.float32)
    g[:, 5] = 1
    s[1, 0] = np.nan
    w = np.ones_like(s)
    found = adjoint.linear_recurrence(*map(as_device, (g, w, s, w)))[1]
    np.testing.assert_array_equal(np.array(found)[:, :7], [[32, 16, 8, 4, 2, 1, 0]] * 2)
