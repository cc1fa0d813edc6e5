"""Margins of summaries of w = s·w + t. test_linear_numbers.py has the carry-outs that they give."""

import numpy as np
import pytest

from mgrec.scans.validity import (
    SAFE_BLOCK,
    SAFE_GROWTH,
    SAFE_HIGH,
    SAFE_LOW,
    SAFE_TERM,
    margins,
)


def half_a_unit(dtype):
    largest = np.finfo(dtype).max
    return float(largest - np.nextafter(largest, largest.dtype.type(0))) / 2


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_offsets_stay_below_half_a_unit_and_lost_states_far_from_overflow(dtype):
    own, info = margins(np.dtype(dtype)), np.finfo(dtype)
    assert own.offset_on_cpu < half_a_unit(dtype)
    assert 300 * own.offset_on_gpu < half_a_unit(dtype)
    # One margin of offsets would not do for both machines.
    assert info.dtype.itemsize == 4 or 300 * own.offset_on_cpu > half_a_unit(dtype)
    back = np.log2(float(info.smallest_subnormal)) + own.rebound
    assert back < np.log2(float(info.max)) - 64


def test_a_safe_block_keeps_its_products_normal_and_its_offsets_below_the_margin():
    assert np.finfo(float).tiny < 2.0**-500 * SAFE_LOW**16
    assert np.isclose(SAFE_BLOCK * np.log2(SAFE_HIGH), SAFE_GROWTH)
    assert SAFE_BLOCK * 2.0**SAFE_GROWTH * SAFE_TERM < 1
