"""What functions of NumPy arrays allocate beside operands and results, which tracemalloc sees."""

import tracemalloc

import numpy as np
import pytest

import mgrec
from mgrec import signal

B, A = [0.1, 0.2, 0.1], [1.0, -0.5, 0.2]
SOS = [[0.1, 0.2, 0.1, 1.0, -0.5, 0.2]]


def peak_beside_result(call):
    """Return the bytes that a call takes beside its result, and those of the result.

    The first call, which compiles and designs, does not count. Of three more the least one does:
    threads of an earlier test, such as those of a cluster, may allocate during a call.
    """
    call()
    extra = []
    tracemalloc.start()
    try:
        for _ in range(3):
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            result = call()
            _, peak = tracemalloc.get_traced_memory()
            extra.append(peak - before - result.nbytes)
            size = result.nbytes
            del result
    finally:
        tracemalloc.stop()
    return min(extra), size


CALLS = {
    "filtfilt": lambda x: signal.filtfilt(B, A, x.reshape(-1)),
    "filtfilt, axis 0": lambda x: signal.filtfilt(B, A, x, axis=0),
    "filtfilt, gust": lambda x: signal.filtfilt(B, A, x.reshape(-1), method="gust", irlen=50),
    "sosfiltfilt": lambda x: signal.sosfiltfilt(SOS, x, axis=0),
    "lfilter, axis 0": lambda x: signal.lfilter(B, A, x, axis=0),
    "sor": lambda x: mgrec.sor(x),
    "sor, a scalar": lambda x: mgrec.sor(x.reshape(64, -1), 0.5),
    "sor, transposed": lambda x: mgrec.sor(x.T),
    "factor": lambda x: mgrec.factor_tridiagonal(-1.0, np.full(64, 3, x.dtype), -1.0).solve(x),
}


@pytest.mark.parametrize("name", CALLS)
def test_no_more_than_operands_and_results_take(name):
    x = np.ones((1 << 12, 64))
    extra, result = peak_beside_result(lambda: CALLS[name](x))
    assert extra <= 1.1 * (x.nbytes + result)
