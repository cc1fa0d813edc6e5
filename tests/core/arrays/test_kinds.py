"""Arrays of one recurrence lie together: stand-ins for CuPy arrays, which need no GPU."""

import numpy as np
import pytest

from mgrec.core.arrays.array_types import check_same_device, is_on_gpu


class Device:
    def __init__(self, number):
        self.id = number


class OnGpu:
    """An array on a GPU, as far as it is looked at."""

    __cuda_array_interface__ = None
    ndim, dtype = 1, np.dtype("f4")

    def __init__(self, number=0):
        self.device = Device(number)


class Lazy:
    """A Dask array of chunks on a GPU."""

    _meta = OnGpu()
    ndim, dtype = 1, np.dtype("f4")


@pytest.mark.parametrize(
    ("array", "expected"), [(np.ones(3), False), (2.0, False), (OnGpu(), True), (Lazy(), True)]
)
def test_where_an_array_is(array, expected):
    assert is_on_gpu(array) == expected


@pytest.mark.parametrize("scalar", [0.5, np.float32(0.5), np.array(0.5)])
def test_host_scalars_go_with_arrays_of_any_kind(scalar):
    check_same_device([("s", scalar), ("t", OnGpu())], [("initial", Lazy())])
    check_same_device([("s", scalar), ("t", np.ones(3))], [])


def test_initial_states_may_come_from_host_memory():
    check_same_device([("t", OnGpu())], [("initial", np.ones(3))])
    with pytest.raises(TypeError, match="got initial on a GPU and t in host memory"):
        check_same_device([("t", np.ones(3))], [("initial", OnGpu())])


@pytest.mark.parametrize("array", [OnGpu(), Lazy()])
def test_a_numpy_array_beside_one_on_a_gpu_is_refused(array):
    with pytest.raises(TypeError, match=r"got t on a GPU and s in host memory.*cupy.asarray\(s\)"):
        check_same_device([("s", np.ones(3)), ("t", array)], [])


def test_two_devices_are_refused():
    with pytest.raises(ValueError, match="on one device; got s on 0, t on 1"):
        check_same_device([("s", OnGpu(0)), ("t", OnGpu(1))], [])
