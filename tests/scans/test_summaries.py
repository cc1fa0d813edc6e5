"""Guarded maps of w = s·w + t, which GPUs compose, in any grouping, and the margins of summaries.

test_linear_numbers.py has the carry-outs of chunks.
"""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles import linear, loop

from mgrec.scans.summaries import (
    FINE,
    NAN,
    REDO,
    SAFE_BLOCK,
    SAFE_GROWTH,
    SAFE_HIGH,
    SAFE_LOW,
    SAFE_TERM,
    AffineSummary,
    guarded_affine,
    margins,
    propagate_affine,
)

ENTRIES = [0.0, 1.0, -3.5, 1e-30, 2e30]


def composed(s, t, seed):
    """The map of all steps, composed in an order that the seed decides."""
    transfer_map = guarded_affine(np.dtype(s.dtype))
    generator = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        maps = [
            tuple(np.asarray(x).astype(s.dtype) for x in transfer_map.lift(a, b))
            for a, b in zip(s, t, strict=True)
        ]
        while len(maps) > 1:
            k = generator.integers(len(maps) - 1)
            joined = transfer_map.compose(maps[k], maps[k + 1])
            maps[k : k + 2] = [tuple(np.asarray(x).astype(s.dtype) for x in joined)]
    return maps[0]


def carry_outs(step, dtype):
    """What `propagate_affine` makes of the map, for every entry."""
    mantissa, exponent, offset, growth, more = (np.asarray(part) for part in step[:5])
    wide = np.result_type(dtype, np.float64)
    summary = AffineSummary(
        mantissa.astype(wide).reshape(1, 1),
        exponent.real.astype(np.int64).reshape(1, 1),
        offset.reshape(1, 1),
        (np.log2(growth.real.astype(float)) + more.real).reshape(1, 1),
    )
    return [propagate_affine(summary, np.full((1, 1), e, dtype))[0, 0] for e in ENTRIES]


exponents = st.lists(st.integers(-40, 40), min_size=1, max_size=40)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@settings(max_examples=60)
@example([0, 0, 0, 29, 0, 0, 0], 0, 0.0)
@given(exponents, st.integers(0, 99), st.sampled_from([0.0, 1.0, 1e-20]))
def test_a_map_that_is_fine_gives_the_loops_exit(dtype, powers, seed, size):
    generator = np.random.default_rng(seed)
    s = np.exp2(np.array(powers) + generator.uniform(-0.5, 0.5, len(powers))).astype(dtype)
    s[generator.random(s.size) < 0.05] = 0
    t = (size * generator.uniform(-1, 1, s.size)).astype(dtype)
    if s.dtype.kind == "c":
        s *= np.exp(1j * generator.uniform(0, 6, s.size)).astype(dtype)
    step = composed(s, t, seed)
    if step[7].real != FINE:
        return
    unit = 16 * s.size * np.finfo(dtype).eps
    # What a subnormal number has lost grows with the products of the last coefficients.
    grown = np.abs(np.cumprod(np.r_[1, s[::-1]].astype(complex))).max()
    lost = 16 * s.size * float(np.finfo(dtype).smallest_subnormal) * grown
    # Within a factor of 4 of overflow complex numbers are promised nothing.
    largest = np.finfo(dtype).max / (4 if s.dtype.kind == "c" else 1)
    with np.errstate(all="ignore"):
        highest = np.abs(np.cumprod(np.r_[1, s].astype(complex))).max()
        for carry_in, got, wanted in zip(
            ENTRIES,
            carry_outs(step, dtype),
            [loop(linear, (s, t), np.dtype(dtype).type(x), dtype)[-1] for x in ENTRIES],
            strict=True,
        ):
            if s.dtype.kind == "c" and largest < abs(carry_in) * highest < 8 * largest:
                continue
            assert np.isfinite(got) == np.isfinite(wanted), (carry_in, got, wanted)
            if np.isfinite(wanted):
                bound = unit * (np.abs(wanted) + size * grown) + lost
                assert abs(complex(got) - complex(wanted)) <= bound


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("name", "s", "t", "flag"),
    [
        ("safe", [0.5] * 30, [1.0] * 30, FINE),
        ("nan in s", [0.5, np.nan, 0.5], [1.0] * 3, NAN),
        ("nan in t, after inf", [0.5, 0.5, 0.5], [np.inf, np.nan, 1.0], NAN),
        ("inf", [0.5, np.inf, 0.5], [1.0] * 3, REDO),
        ("an offset near overflow", [2.0] * 70, [1e20] * 70, REDO),
        ("a state that could return", [1e-30] * 8 + [1e30] * 8, [0.0] * 16, REDO),
        ("growth that a later entry decides", [1e30] * 6 + [1e-30] * 6, [0.0] * 12, FINE),
    ],
)
def test_what_the_flag_says(name, s, t, flag, seed):
    step = composed(np.array(s, np.float32), np.array(t, np.float32), seed)
    if name != "growth that a later entry decides":
        assert step[7] == flag
    else:  # 2**600 on the way, and back
        assert step[4] > 500


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
