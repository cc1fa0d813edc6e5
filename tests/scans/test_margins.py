"""The margins of trust follow from the numbers of the dtypes."""

import numpy as np
import pytest

from mgrec.scans.validity import SAFE_BLOCK, SAFE_GROWTH, SAFE_HIGH, SAFE_LOW, SAFE_TERM, margins


def half_a_unit(dtype):
    largest = np.finfo(dtype).max
    return float(largest - np.nextafter(largest, largest.dtype.type(0))) / 2


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_offsets_that_add_up_stay_below_half_a_unit_of_the_largest_number(dtype):
    own = margins(np.dtype(dtype))
    assert own.offset_on_cpu < half_a_unit(dtype)
    assert 300 * own.offset_on_gpu < half_a_unit(dtype)


def test_one_margin_of_offsets_would_not_do_for_both_machines():
    own = margins(np.dtype("float64"))
    assert 300 * own.offset_on_cpu > half_a_unit("float64")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_lost_state_comes_back_far_from_overflow(dtype):
    info = np.finfo(dtype)
    back = np.log2(float(info.smallest_subnormal)) + margins(np.dtype(dtype)).rebound
    assert back < np.log2(float(info.max)) - 64


def test_a_safe_block_keeps_its_products_normal_and_its_offsets_below_the_margin():
    assert np.finfo(float).tiny < 2.0**-500 * SAFE_LOW**16
    assert np.isclose(SAFE_BLOCK * np.log2(SAFE_HIGH), SAFE_GROWTH)
    assert SAFE_BLOCK * 2.0**SAFE_GROWTH * SAFE_TERM < 1
