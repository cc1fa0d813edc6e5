"""Parameters in host memory beside data on a device, whose kernels run on this machine."""

from typing import Any

import numpy as np
import pytest
from chunkings import with_extended
from cuda_on_host import DeviceArray, pretend_cupy
from parameter_cases import CASES, leaves

pytestmark = pytest.mark.usefixtures("on_host")
# Arrays between kernels of the others lose the type of a device's; see tests/solve and tests/core.
NAMES = (
    "hmm.log_likelihood", "solve_tridiagonal", "statespace.log_likelihood", "scan of matrices",
    "lfilter in time", "sosfilt", "hmm.viterbi", "kalman_filter", "kalman_smoother",
    "statespace.sample", "adjoint.scan of matrices", "adjoint.lfilter", "adjoint.sosfilt",
    "adjoint.hmm_log_likelihood", "adjoint.statespace_log_likelihood",
)  # fmt: skip


@pytest.mark.parametrize("name", with_extended(NAMES, *NAMES[3:]))
def test_parameters_in_host_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, data, parameters = CASES[name]
    wanted: Any = leaves(function(*data, *parameters))
    pretend_cupy(monkeypatch)
    on_device = [np.array(array).view(DeviceArray) for array in data]
    for result, array in zip(leaves(function(*on_device, *parameters)), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(result), array, rtol=1e-8, atol=1e-8)
