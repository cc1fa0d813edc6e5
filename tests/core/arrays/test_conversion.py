"""Every message at the door names the argument, what it got and what it wants."""

import dask
import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended

import mgrec
from mgrec.signal import ewm

ONES = np.ones(4)
TABLE = np.ones((2, 4))


class OnAGpu:
    __cuda_array_interface__ = {"version": 3}  # noqa: RUF012


def linear(s=0.5, t=ONES, initial=None, **options):
    return lambda: mgrec.linear_recurrence(s, t, initial, **options)


def scan(*operands, transfer_map=mgrec.maps.max_plus, initial=0.0, **options):
    return lambda: mgrec.scan(transfer_map, *operands, initial=initial, **options)


REFUSED = {
    "bool": (linear(s=True), TypeError, "s must be a number; got a bool"),
    "bool of NumPy": (linear(s=np.True_), TypeError, "s must be a number; got a bool"),
    "object": (linear(t=np.array([1, None])), TypeError, "t must be of .*; got object"),
    "None": (linear(t=None), TypeError, r"t must be of .*; got object \(None\)"),
    "a function": (linear(s=lambda i: i), TypeError, "a function: wrap it in mgrec.Coefficient"),
    "a set": (linear(t={1.0}), TypeError, "got object .of type set"),
    "ragged": (linear(t=[[1.0], [1.0, 2.0]]), ValueError, "t must be convertible to a NumPy arr"),
    "text": (linear(s="half"), TypeError, "s must be of .*; got <U4"),
    "longdouble": (linear(t=np.ones(4, np.longdouble)), TypeError, "at most 64 bits"),
    "clongdouble": (linear(t=np.ones(4, np.clongdouble)), TypeError, "at most 64 bits"),
    "dates": (linear(t=np.zeros(4, "M8[s]")), TypeError, r"got datetime64\[s\]"),
    "durations": (linear(initial=np.timedelta64(1, "s")), TypeError, "initial must be of .* got"),
    "masked": (linear(t=np.ma.ones(4)), TypeError, "t must be a plain array; got a masked array"),
    "masked in Dask": (
        linear(t=da.ma.masked_array(da.ones(4), mask=[1, 0, 0, 0])),
        TypeError,
        "t must be plain; got chunks of masked arrays",
    ),
    "a GPU": (
        linear(t=OnAGpu()),
        TypeError,
        "t must be a CuPy array; got .*OnAGpu: wrap it with cupy.asarray",
    ),
    "lazy": (
        linear(t=dask.delayed(ONES)),
        TypeError,
        "t must be a NumPy or Dask array; got a lazy Delayed.*: convert it to a Dask array",
    ),
    "Coefficient as initial": (
        linear(initial=mgrec.Coefficient(lambda i: i)),
        TypeError,
        "initial must be of .* got object",
    ),
    "array of a coefficient": (
        linear(s=mgrec.Coefficient(lambda i, x: x, ONES.astype("M8[s]"))),
        TypeError,
        "array 0 of s must be of .* got datetime64",
    ),
    "too large for int8": (
        linear(s=300, t=np.ones(4, np.int8)),
        ValueError,
        "s must be representable in int8; got 300",
    ),
    "negative for uint8": (
        linear(initial=-1, s=2, t=np.ones(4, np.uint8)),
        ValueError,
        "initial must be representable in uint8; got -1",
    ),
    "too large for float64": (linear(s=10**400), ValueError, "s must be representable in float64"),
    "shapes": (linear(s=np.ones(3)), ValueError, r"must broadcast; got s: \(3,\), t: \(4,\)"),
    "shape of an array of a coefficient": (
        linear(s=mgrec.Coefficient(lambda i, x: x, np.ones(3))),
        ValueError,
        r"must broadcast; got array 0 of s: \(3,\), t: \(4,\)",
    ),
    "axis of a table": (linear(t=TABLE, axis=-3), ValueError, "axis must be from -2 to 1 .* -3"),
    "scalars": (linear(t=1.0), ValueError, "at least one of s, t must be an array"),
    "initial of an array for one row": (
        linear(initial=[1.0, 2.0]),
        ValueError,
        r"initial must be a scalar or have shape \(\), the shape without axis 0; got \(2,\)",
    ),
    "initial of too many rows": (
        linear(t=TABLE, initial=np.ones(3)),
        ValueError,
        r"have shape \(2,\), the shape without axis 1; got \(3,\)",
    ),
    "initial like t": (linear(t=TABLE, initial=TABLE), ValueError, r"got \(2, 4\)"),
    "memory": (linear(memory="all"), ValueError, "memory must be 'stream' or 'two-pass'; got 'all'"),
    "no transfer map": (
        scan(ONES, transfer_map=np.add),
        TypeError,
        "transfer_map must be a TransferMap; got <ufunc 'add'>",
    ),
    "too few operands": (scan(ONES), ValueError, r"lift of max_plus takes 2 operands \('s', 'c'\); got 1"),
    "too many operands": (scan(ONES, 0, 0), ValueError, "takes 2 operands .*; got 3"),
    "named as in lift": (scan(ONES, ONES.astype("M8[s]")), TypeError, "c must be of .* got datetime64"),
    "a state of one scalar for two": (
        scan(ONES, 1, 1, 0, 0, 0, transfer_map=mgrec.maps.matrix2),
        ValueError,
        "initial must be a state that apply of matrix2 takes; got one",
    ),
    "a state of three scalars for two": (
        scan(ONES, 1, 1, 0, 0, 0, transfer_map=mgrec.maps.matrix2, initial=(0, 0, 0)),
        ValueError,
        "initial must be a state that apply of matrix2 takes; got a tuple of 3",
    ),
    "a state of two scalars for one": (
        scan(ONES, 0, initial=(0.0, 0.0)),
        ValueError,
        "initial must be .* apply of max_plus .* got a tuple of 2",
    ),
    "a tuple of one": (scan(ONES, 0, initial=(0.0,)), ValueError, "got a tuple of 1"),
    "complex rational": (
        lambda: mgrec.rational_recurrence(1j, ONES, 1, 0, 0),
        TypeError,
        "a, b, c, d must be real; got complex128",
    ),
    "unknown and NumPy": (
        linear(s=ONES, t=da.ones(4, chunks=2)[da.ones(4, chunks=2) > 0]),
        ValueError,
        "(?i)compute_chunk_sizes",
    ),
    "numbers of unknown chunks": (
        linear(
            s=da.ones(4, chunks=1)[da.ones(4, chunks=1) > 0], t=da.ones(4, chunks=2)[da.ones(4, chunks=2) > 0]
        ),
        ValueError,
        "same number of chunks along axis 0; got 4 and 2",
    ),
    "an index in unknown chunks": (
        linear(s=mgrec.Coefficient(lambda i: 1 / (i + 1)), t=da.ones(4, chunks=2)[da.ones(4, chunks=2) > 0]),
        ValueError,
        r"Coefficient needs the index.*compute_chunk_sizes\(\)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        call()


def test_a_lazy_dataset_says_how_to_pass_it():
    xarray = pytest.importorskip("xarray")
    lazy = xarray.Dataset({"rain": ("day", da.ones(4, chunks=2))})
    with pytest.raises(TypeError, match=r"got a lazy Dataset: pass a DataArray, or import mgrec\.xarray"):
        mgrec.linear_recurrence(0.5, lazy)


BITS = np.array([True, False, True, True])
TAKE_BOOL = {
    "linear_recurrence": lambda t: mgrec.linear_recurrence(0.5, t),
    "sums": lambda t: mgrec.linear_recurrence(1, t),
    "coefficients": lambda s: mgrec.linear_recurrence(s, ONES.astype("f4")),
    "states": lambda t: mgrec.linear_recurrence(0.5, ONES, t[0:1].reshape(())),
    "a Coefficient": lambda t: mgrec.linear_recurrence(mgrec.Coefficient(lambda i, x: x, t), ONES),
    "scan": lambda t: mgrec.scan(mgrec.maps.max_plus, t, t, initial=0),
    "weighted_scan": lambda t: mgrec.weighted_scan(t, t, operators=("+", "+")),
    "solve_tridiagonal": lambda t: mgrec.solve_tridiagonal(t, 4, t, t),
    "solve_banded": lambda t: mgrec.solve_banded((0, 1), np.array([[0, 1, 1, 1], [4] * 4]), t),
    "wavefront": lambda t: mgrec.wavefront(t[None], weights=(1, 1, 0), above=0, left=0, corner=0),
    "sor": lambda t: mgrec.sor(t[None], sweeps=1),
    "ewm": lambda t: ewm(t, span=3),
    "adjoint": lambda t: mgrec.adjoint.linear_recurrence(ONES, ONES, t, t)[1],
}


# The kernels of the others are compiled for int64.
SHORT = {"sums", "coefficients", "solve_tridiagonal", "ewm", "adjoint"}


@pytest.mark.parametrize("name", with_extended(TAKE_BOOL, *TAKE_BOOL.keys() - SHORT))
@pytest.mark.parametrize("place", [np.asarray, lambda t: da.from_array(t, chunks=2)])
def test_bools_are_integers(name, place):
    """They promote as in NumPy; alone they are computed in int64."""
    call = TAKE_BOOL[name]
    found, expected = call(place(BITS)), call(BITS.astype(np.int64))
    is_narrow = name == "coefficients"
    assert found.dtype == (np.float32 if is_narrow else expected.dtype)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("s", "t", "initial", "dtype"),
    [
        (np.ones(3, bool), np.ones(3, np.float32), None, "f4"),
        (np.ones(3, bool), np.ones(3, np.uint8), None, "u1"),
        (0.5, np.ones(3, np.float32), None, "f4"),
        (np.float64(0.5), np.ones(3, np.float32), None, "f8"),
        (0.5, np.ones(3, np.float32), np.float64(1), "f8"),
        (0.5, np.ones(3, np.float16), 1, "f2"),
        (2, np.ones(3, np.int8), None, "i1"),
        (np.int8(2), np.ones(3, np.uint8), None, "i2"),
        (np.uint64(2), np.ones(3, np.int64), None, "f8"),
        (0.5, np.ones(3, np.int8), None, "f8"),
        (1j, np.ones(3, np.float32), None, "c8"),
        (2, np.ones(3, ">i4"), None, "i4"),
        (mgrec.Coefficient(lambda i: i), np.ones(3, np.float32), None, "f4"),
        (mgrec.Coefficient(lambda i: i), np.ones(3, np.int8), None, "f8"),
    ],
)
@pytest.mark.parametrize("place", [da.from_array, pytest.param(np.asarray, marks=pytest.mark.extended)])
def test_dtype_of_the_result(place, s, t, initial, dtype):
    assert mgrec.linear_recurrence(s, place(t), initial).dtype == np.dtype(dtype)


def test_float16_is_computed_in_float32():
    # In float16 the sum stays 2048.
    w = mgrec.linear_recurrence(1.0, np.ones(4096, np.float16))
    assert w[-1] == 4096


def test_lists_and_tuples_are_arrays():
    w = mgrec.linear_recurrence([0.5, 2.0], [[1, 1], [2, 2]], (1.0, 3.0))
    assert w.tolist() == [[1.5, 4.0], [3.5, 9.0]]
    assert mgrec.rational_recurrence(1, da.ones(3, dtype=np.int32), 1, 0, 1).dtype == np.float64


def test_initial_broadcasts_over_rows():
    t = np.zeros((2, 3, 4))
    for initial in (2.0, np.full(3, 2.0), np.full((2, 1), 2.0), np.full((2, 3), 2.0)):
        assert (mgrec.linear_recurrence(1.0, t, initial) == 2).all()
