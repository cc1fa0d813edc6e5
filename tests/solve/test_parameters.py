"""Parameters in host memory beside data on a GPU."""

import dask.array as da
import numpy as np
import pytest
from parameter_cases import CASES, X, leaves

import mgrec

pytestmark = pytest.mark.gpu


def chunked(cupy, array):
    return da.from_array(cupy.asarray(array), chunks=(2, 15, *array.shape[2:]), asarray=False)


@pytest.mark.parametrize("name", CASES)
def test_parameters_are_copied_to_the_gpu_of_the_data(name):
    cupy = pytest.importorskip("cupy")
    function, data, parameters = CASES[name]
    wanted = leaves(function(*data, *parameters))
    results = leaves(function(*map(cupy.asarray, data), *parameters))
    for result, array in zip(results, wanted, strict=True):
        assert isinstance(result, cupy.ndarray)
        np.testing.assert_allclose(result.get(), array, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", [name for name in CASES if "adjoint" not in name])
def test_parameters_beside_chunks_on_a_gpu(name):
    cupy = pytest.importorskip("cupy")
    function, data, parameters = CASES[name]
    wanted = leaves(function(*data, *parameters))
    results = leaves(function(*[chunked(cupy, array) for array in data], *parameters))
    for result, array in zip(da.compute(*results, scheduler="sync"), wanted, strict=True):
        assert isinstance(result, cupy.ndarray)
        np.testing.assert_allclose(result.get(), array, rtol=1e-8, atol=1e-8)


def test_data_is_not_copied_to_a_gpu():
    cupy = pytest.importorskip("cupy")
    with pytest.raises(TypeError, match="got s on a GPU and t in host memory"):
        mgrec.linear_recurrence(cupy.asarray(X), X)
    with pytest.raises(TypeError, match="got d on a GPU and b in host memory"):
        mgrec.solve_tridiagonal(1.0, cupy.full(40, 4.0), 1.0, X)
