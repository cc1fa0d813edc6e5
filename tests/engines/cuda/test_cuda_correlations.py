"""Gradients of coefficients from correlations, run on this machine, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from chunkings import with_extended
from cuda_on_host import empty

import mgrec
from mgrec.engines.cuda import backend
from mgrec.filters import adjoint
from mgrec.filters.cuda import correlations
from mgrec.solve import prepared

pytestmark = pytest.mark.usefixtures("on_host")
extended = pytest.mark.extended


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (correlations, backend):
        monkeypatch.setattr(module, "_THREADS", 32)
        monkeypatch.setattr(module, "_BLOCKS", 8)


@pytest.mark.parametrize("dtype", with_extended(["f4", "c16"], "c16"))
def test_prepared_gradients(dtype: str) -> None:
    """Coefficients that come again have a prepared call, for other signals and some gradients."""
    prepared._cached_call.cache_clear()
    b, a = np.array([0.5, 0.2]), np.array([2.0, -0.8, 0.3])
    if dtype == "c16":
        b, a = b + 0.1j, a - 0.3j
    b, a, shape = b.astype(dtype), a.astype(dtype), (2, 72)
    arrays = [empty(shape, dtype) for _ in range(3)]
    targets = [empty(n, dtype) for n in (2, 3, shape)]
    addresses, results = ([x.data.ptr for x in some] for some in (arrays, targets))
    if any(address % 16 for address in (*addresses, results[-1])):
        pytest.skip("memory of NumPy is not aligned")
    call = backend.BACKEND, shape, np.dtype(dtype), 0, addresses
    random, is_solved = np.random.default_rng(7), []
    for of in ((1, 1, 1), (1, 1, 1), (0, 1, 0)):
        for array in (*arrays, *targets):
            array[...] = random.uniform(-1, 1, array.shape)
            if dtype == "c16":
                array.imag[...] = random.uniform(-1, 1, array.shape)
        grad, y, x = arrays
        expected = mgrec.adjoint.lfilter(grad, y, b, a, x)[:3]
        wanted = [r if is_wanted else 0 for r, is_wanted in zip(results, of, strict=True)]
        is_solved.append(adjoint._differentiate_at(*call, wanted, {"b": b, "a": a, "axis": -1}))
        for target, values, is_wanted in zip(targets, expected, of, strict=True):
            if is_wanted and is_solved[-1]:
                np.testing.assert_array_equal(np.array(target), np.array(values))
    assert is_solved == [False, True, True]
    prepared._cached_call.cache_clear()
