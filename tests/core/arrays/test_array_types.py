"""Types and devices of arrays, native forms of them, and casts."""

from __future__ import annotations

from typing import Any

import dask.array as da
import foreign_cases
import numba
import numpy as np
import pytest
from cuda_on_host import DeviceArray, pretend_cupy
from layouts import read_only, swapped, unaligned

import mgrec
from mgrec.signal import ewm, lfilter, lfilter_zi, lfiltic, sosfilt, sosfilt_zi, sosfiltfilt


class Device:
    def __init__(self, number):
        self.id = number


def test_which_arrays_go_together(monkeypatch):
    pretend_cupy(monkeypatch)
    line, on_gpu = np.ones(3), np.ones(3).view(DeviceArray)
    for t in (on_gpu, da.from_array(line).map_blocks(np.copy, meta=on_gpu[:0])):
        with pytest.raises(TypeError, match=r"got t on a GPU and s in host.*cupy.asarray\(s\)"):
            mgrec.linear_recurrence(line, t)
    with pytest.raises(TypeError, match="got initial on a GPU and t in host memory"):
        mgrec.linear_recurrence(0.5, np.ones((3, 2)), initial=on_gpu)
    other = np.ones(3).view(type("Other", (DeviceArray,), {"device": Device(1), "__module__": "cupy"}))
    with pytest.raises(ValueError, match="on one device; got s on 0, t on 1"):
        mgrec.linear_recurrence(on_gpu, other)


B, A = np.array([0.2, 0.1]), np.array([1.0, -0.7])
SOS = np.array([[0.2, 0.1, 0.0, 1.0, -0.7, 0.1]])
LINE, TABLE = np.linspace(0.1, 0.9, 60), np.linspace(0.1, 0.9, 42).reshape(6, 7)
MARKS = np.arange(60) // 7
DAYS = np.arange(60).astype("M8[D]")


def widened(array):
    return array.astype(np.float64) if array.dtype == np.float32 else array


CALLS = {
    name: (call, *map(widened, arrays)) for name, (call, *arrays) in foreign_cases.CALLS.items()
} | {
    "reset": (lambda x, reset: mgrec.linear_recurrence(0.5, x, reset=reset), LINE, MARKS),
    "initial": (lambda x, initial: mgrec.linear_recurrence(0.5, x, initial), TABLE, TABLE[:, 0]),
    "rational initial": (
        lambda x, start: mgrec.rational_recurrence(x, x, 1.0, 2.0, start), TABLE, TABLE[:, 0]
    ),
    "sums of images": (mgrec.summed_area_table, np.arange(42, dtype="u2").reshape(6, 7)),
    "coefficients of a filter": (lambda b, a: lfilter(b, a, LINE), B, A),
    "sections": (lambda sos, zi: sosfilt(sos, LINE, zi=zi), SOS, np.ones((1, 2))),
    "sections of sosfiltfilt": (lambda sos: sosfiltfilt(sos, LINE), SOS),
    "lfilter_zi": (lfilter_zi, B, A),
    "lfiltic": (lfiltic, B, A, LINE[:2]),
    "sosfilt_zi": (sosfilt_zi, SOS),
    "ewm of two": (lambda x, other: ewm(x, alpha=0.5, statistic="cov", other=other), LINE, LINE**2),
    "ewm at dates": (lambda x, times: ewm(x, halflife="2 days", times=times), LINE, DAYS),
    "starts": (mgrec.starts, np.array([2, 0, 3])),
    "scores": (
        lambda codes, matrix: mgrec.smith_waterman(codes, codes[1:], matrix=matrix, gap=-2),
        foreign_cases.CODES, np.where(np.eye(4) > 0, 2, -1),
    ),
    "joined sequences": (
        lambda codes, offsets: mgrec.smith_waterman(
            codes[:9], mgrec.Sequences(codes, offsets), match=1, mismatch=-1, gap=-2
        ).score,
        foreign_cases.CODES, np.array([0, 20, 50]),
    ),
    "text": (
        lambda text: mgrec.smith_waterman(text, text[1:], match=1, mismatch=-1, gap=-2),
        np.array(list("GATTACA")),
    ),
}  # fmt: skip
QUICK = {
    "linear_recurrence",
    "summed_area_table",
    "sums of images",
    "lfilter",
    "lfilter_zi",
    "lfiltic",
    "sosfilt_zi",
    "starts",
    "ewm at dates",
}
LAZY = [
    "linear_recurrence",
    "rational_recurrence",
    "scan",
    "weighted_scan",
    "lfilter",
    "sosfilt",
    "filtfilt",
    "ewm",
    "solve_tridiagonal",
    "solve_banded",
    "summed_area_table",
    "wavefront",
    "sor",
    "smith_waterman",
    "reset",
]


def quick(names):
    return [n if n in QUICK else pytest.param(n, marks=pytest.mark.extended) for n in names]


class Tagged(np.ndarray):
    pass


def tagged(array):
    return array.view(Tagged)


@pytest.fixture
def mapped(tmp_path):
    def mapped(array):
        file = tmp_path / f"{len([*tmp_path.iterdir()])}"
        array.tofile(file)
        return np.memmap(file, array.dtype, "r", shape=array.shape)

    return mapped


@numba.njit
def seen(array):
    return array.size


def confuse(arrays):
    """Let numba meet arrays of the same dtypes and axes that are not aligned."""
    for array in arrays:
        if array.dtype.kind in "iuf":
            seen(unaligned(array))


def assert_same(results, wanted):
    results, wanted = map(foreign_cases.flat, (results, wanted))
    for result, native in zip(results, wanted, strict=True):
        assert getattr(result, "dtype", np.dtype(bool)).isnative
        assert np.asarray(result).dtype == np.asarray(native).dtype
        np.testing.assert_array_equal(result, native)


@pytest.mark.parametrize("name", quick(CALLS))
def test_any_layout_has_the_bits_of_native_arrays(name, mapped):
    call, *arrays = CALLS[name]
    wanted = call(*arrays)
    confuse(arrays)
    # Often enough for a prepared call.
    for layout in (unaligned, swapped, swapped, swapped, unaligned, read_only, mapped, tagged):
        assert_same(call(*map(layout, arrays)), wanted)


@pytest.mark.parametrize("name", quick(LAZY))
def test_chunks_of_any_layout_have_the_bits_of_native_chunks(name):
    def computed(layout):
        chunked = (da.from_array(layout(array), chunks=-1, asarray=False) for array in arrays)
        lazy = foreign_cases.flat(call(*chunked))
        assert all(result.dtype.isnative for result in lazy)
        return tuple(result.compute(scheduler="sync") for result in lazy)

    call, *arrays = CALLS[name]
    if name == "lfilter":
        call, arrays = (lambda x: lfilter(B, A, x)), [LINE]
    wanted = computed(np.array)
    confuse(arrays)
    for layout in (swapped, unaligned):
        assert_same(computed(layout), wanted)


@pytest.mark.gpu
def test_host_arrays_beside_those_of_a_gpu():
    cupy = pytest.importorskip("cupy")
    x = cupy.asarray(TABLE)
    for call, *arrays in (
        (lambda initial: mgrec.linear_recurrence(0.5, x, initial), TABLE[:, 0]),
        (lambda initial: mgrec.scan(mgrec.maps.max_plus, -0.1, x, initial=initial), TABLE[:, 0]),
        (lambda b, a: lfilter(b, a, x), B, A),
        (lambda zi: lfilter(B, A, x, zi=zi), TABLE[:, :1]),
        (lambda sos: sosfilt(sos, x), SOS),
        (lambda times: ewm(x, halflife="2 days", times=times), DAYS[:7]),
    ):
        wanted = call(*arrays)
        for layout in (swapped, unaligned, tagged):
            results = call(*map(layout, arrays))
            for result, native in zip(*map(foreign_cases.flat, (results, wanted)), strict=True):
                cupy.testing.assert_array_equal(result, native)


def test_out_is_native_or_refused():
    with pytest.raises(ValueError, match="out must be aligned"):
        mgrec.linear_recurrence(0.5, LINE, out=unaligned(LINE))
    with pytest.raises(ValueError, match=r"out must have shape .* dtype float64; got .* >f8"):
        mgrec.linear_recurrence(0.5, LINE, out=swapped(LINE))
    with pytest.raises(ValueError, match=r"out must have shape .* dtype float64; got .* >f8"):
        mgrec.summed_area_table(TABLE, out=swapped(TABLE))
    with pytest.raises(TypeError, match="dtype must be in native byte order; got >f8"):
        mgrec.summed_area_table(TABLE, dtype=">f8")
    out = np.empty(60).view(Tagged)
    assert mgrec.linear_recurrence(0.5, LINE, out=out) is out
    np.testing.assert_array_equal(out, mgrec.linear_recurrence(0.5, LINE))


def test_float16_of_another_byte_order():
    half = np.ones(8, "f2")
    wanted = mgrec.linear_recurrence(0.5, half)
    assert_same(mgrec.linear_recurrence(0.5, swapped(half)), wanted)


@pytest.mark.gpu
def test_a_state_of_float32_enters_a_recurrence_in_float64_as_it_is() -> None:
    cupy: Any = pytest.importorskip("cupy", reason="CuPy is not installed")
    s, t = cupy.full(5, 2.0), cupy.zeros(5)
    got = mgrec.linear_recurrence(s, t, initial=cupy.asarray(np.float32(1e-45)))
    np.testing.assert_array_equal(got.get(), float(np.float32(1e-45)) * 2.0 ** np.arange(1, 6))
