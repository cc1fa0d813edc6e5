"""Every function takes arrays of other libraries, and gives back arrays of theirs."""

from typing import NamedTuple

import foreign_cases as cases
import numpy as np
import pytest

import mgrec
from mgrec.core.arrays.interop import NonNativeArray, library_of
from mgrec.core.arrays.validation import as_any_array
from mgrec.ndimage import spline_filter
from mgrec.scans.arguments import check
from mgrec.signal import ewm, filtfilt, lfilter, sosfilt
from mgrec.solve import with_interop

STRICT = cases.strict(pytest.importorskip("array_api_strict"))
OTHERS = [name for name in cases.CALLS if name != "linear_recurrence"]


def library(name):
    if name == "jax":
        return cases.of_jax(pytest.importorskip("jax"))
    if name == "torch":
        return cases.of_torch(pytest.importorskip("torch"))
    return STRICT


def libraries(*quick):
    extended = {"array_api_strict", "jax", "torch"} - {*quick}
    return [*quick, *(pytest.param(n, marks=pytest.mark.extended) for n in sorted(extended))]


@pytest.mark.parametrize(
    "name", ["linear_recurrence", *(pytest.param(n, marks=pytest.mark.extended) for n in OTHERS)]
)
@pytest.mark.parametrize("of", libraries("array_api_strict"))
def test_a_call_of_every_function(of, name):
    cases.check(library(of), name)


@pytest.mark.parametrize("of", libraries("array_api_strict"))
def test_nothing_is_copied(of):
    own, addresses = library(of), []
    room = np.zeros(32, np.float32)
    result = room[-room.ctypes.data % 64 // 4 :][:16]  # jax copies what is not aligned so.

    @with_interop
    def call(x):
        addresses.append(as_any_array("x", x).ctypes.data)
        return result

    x = own.make(cases.LINE)
    assert own.address(call(x)) == result.ctypes.data
    assert addresses == [own.address(x)]


def test_out_is_written_and_returned():
    t, out = STRICT.make(cases.T), STRICT.make(np.zeros_like(cases.T))
    assert mgrec.linear_recurrence(0.5, t, out=out) is out
    np.testing.assert_array_equal(STRICT.read(out), mgrec.linear_recurrence(0.5, cases.T))
    mine = np.zeros_like(cases.T)
    assert mgrec.linear_recurrence(0.5, t, out=mine) is mine


def test_numpy_arrays_may_stand_beside():
    found = mgrec.linear_recurrence(cases.S, STRICT.make(cases.T), np.float32(2))
    assert isinstance(found, STRICT.kind)
    np.testing.assert_array_equal(
        STRICT.read(found), mgrec.linear_recurrence(cases.S, cases.T, np.float32(2))
    )


def test_arrays_inside_of_named_tuples():
    class State(NamedTuple):
        p: object
        q: object

    entries = cases.T, 0.1, 0.2, 0.5, 0.0, 0.0
    p, q = cases.T[:, 0], 2 * cases.T[:, 0]
    state = State(STRICT.make(p), STRICT.make(q))
    found = mgrec.scan(mgrec.maps.matrix2, *entries, initial=state)
    expected = mgrec.scan(mgrec.maps.matrix2, *entries, initial=(p, q))
    for array, wanted in zip(found, expected, strict=True):
        assert isinstance(array, STRICT.kind)
        np.testing.assert_array_equal(STRICT.read(array), wanted)


def test_results_are_not_of_the_library_of_coefficients():
    b, a = (STRICT.make(each.astype(np.float64)) for each in (cases.B, cases.A))
    found = lfilter(b, a, cases.T.astype(np.float64))
    assert isinstance(found, np.ndarray)


def test_a_type_of_ones_own_is_of_the_library_of_its_base():
    class Own(STRICT.kind):
        pass

    own = object.__new__(Own)
    found = library_of(own)
    assert found.name == "array_api_strict"
    assert type(found.result_converter([own], [own])(np.ones(3))) is STRICT.kind


def test_arrays_of_two_libraries_are_refused():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(TypeError, match=r"of one library.*Array of array_api_strict and Series of pan"):
        mgrec.linear_recurrence(STRICT.make(cases.LINE), pandas.Series(cases.LINE))


def test_a_plan_wants_them_at_home():
    with pytest.raises(NonNativeArray, match="t must be a NumPy, CuPy or Dask array here; got one"):
        check(mgrec.core.algebra.transfer_map.affine, {"s": 0.5, "t": STRICT.make(cases.LINE)}, 0, -1, False)


def test_an_error_of_the_call_is_that_of_numpy_arrays():
    with pytest.raises(ValueError, match=r"shapes must broadcast; got s: \(3,\), t: \(3, 40\)"):
        mgrec.linear_recurrence(np.ones(3), STRICT.make(cases.T))
    with pytest.raises(TypeError, match="a, b, c, d must be real; got complex64"):
        mgrec.rational_recurrence(STRICT.make(1j * cases.T), 1.0, 1.0, 0.0, 1.0)


HALVES = np.full(5, 0.5)
CHANGES = np.array([[0.9, 0.1], [0.1, 0.9]])
OF_JAX = {
    "linear_recurrence": lambda x: mgrec.linear_recurrence(HALVES, x),
    "a number and a state of NumPy": lambda x: mgrec.linear_recurrence(HALVES[0], x, HALVES[0]),
    "integers": lambda x: mgrec.linear_recurrence(np.ones(5, int), x.astype(int)),
    "lfilter": lambda x: lfilter(HALVES[:1], np.array([1, -0.5]), x),
    "sosfilt": lambda x: sosfilt(np.array([[0.2, 0.1, 0.0, 1.0, -0.7, 0.1]]), x),
    "filtfilt": lambda x: filtfilt(HALVES[:1], np.array([1, -0.5]), x, padlen=1),
    "solve_tridiagonal": lambda x: mgrec.solve_tridiagonal(HALVES, 4.0, HALVES, x),
    "solve_banded": lambda x: mgrec.solve_banded((1, 0), np.stack([HALVES + 4, HALVES]), x),
    "spline_filter": lambda x: spline_filter(x),
    "an option": lambda x: ewm(x, halflife=1e-50 * HALVES[0]),
    "hmm": lambda x: mgrec.hmm.log_likelihood(HALVES[:2], CHANGES, x[:, None] * np.ones(2, "f4")),
    "statespace": lambda x: mgrec.statespace.log_likelihood(
        x[:, None],
        **dict.fromkeys(("design", "obs_cov", "transition", "state_cov"), np.eye(1)),
        initial_state=np.zeros(1),
        initial_state_cov=np.eye(1),
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        "linear_recurrence",
        "lfilter",
        "hmm",
        *(
            pytest.param(name, marks=pytest.mark.extended)
            for name in OF_JAX
            if name not in ("linear_recurrence", "lfilter", "hmm")
        ),
    ],
)
def test_numbers_of_numpy_have_the_dtypes_of_jax(name):
    jax = pytest.importorskip("jax")
    x = jax.numpy.linspace(0.1, 0.9, 5)
    found = OF_JAX[name](x)
    assert found.dtype == (np.int32 if name == "integers" else np.float32)
    compiled = jax.jit(OF_JAX[name])(x)
    assert compiled.dtype == found.dtype
    np.testing.assert_allclose(compiled, found, rtol=1e-6)


@pytest.mark.extended
def test_results_are_of_a_dtype_that_jax_has():
    jax = pytest.importorskip("jax")
    codes = jax.numpy.ones((2, 2), np.int32)
    for call in (mgrec.summed_area_table, jax.jit(mgrec.summed_area_table)):
        with pytest.raises(TypeError, match=r"got int64, .* jax_enable_x64"):
            call(codes)
    path = mgrec.hmm.viterbi(HALVES[:2], CHANGES, jax.numpy.ones((5, 2)))
    assert path[0].dtype == np.float32


def test_lists_beside_jax_are_of_its_dtypes():
    numpy = pytest.importorskip("jax.numpy")
    found = lfilter([0.5], [1, -0.5], numpy.ones(3))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [0.5, 0.75, 0.875])


def test_numbers_of_lists_promote_weakly():
    ones = STRICT.make(np.ones(3, np.int32))
    for numbers, dtype in (([1, 2, 3], np.int32), ([1.0, 2.0, 0.5], np.float64)):
        found = mgrec.linear_recurrence(numbers, ones)
        assert STRICT.read(found).dtype == dtype
    large = mgrec.linear_recurrence([1, 1, 2**40], ones)
    assert STRICT.read(large).tolist() == [1, 2, 2**41 + 1]


def test_factors_beside_jax():
    numpy = pytest.importorskip("jax.numpy")
    factors = mgrec.factor_tridiagonal(1.0, np.full(5, 4.0), 1.0)
    found = factors.solve(numpy.ones(5))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, factors.solve(np.ones(5)), rtol=1e-6)


@pytest.mark.extended
def test_what_jax_does_not_hand_over_is_refused():
    jax = pytest.importorskip("jax")
    numpy = jax.numpy
    with pytest.raises(TypeError, match=r"out must be writeable; got a jax.*, which is immutable"):
        mgrec.linear_recurrence(0.5, numpy.ones(4), out=numpy.ones(4))
    with pytest.raises(TypeError, match=r"x must be of an integer, .*; got bfloat16"):
        mgrec.weighted_scan(numpy.ones(4, numpy.bfloat16), 0.5)
    with pytest.raises(TypeError, match=r"x must be an array; got .* call mgrec outside of jit"):
        jax.jit(lambda x: mgrec.weighted_scan(x, 0.5))(numpy.ones(4))


@pytest.mark.extended
def test_what_requires_gradients_is_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"x must not require gradients.*: pass x\.detach\(\)"):
        mgrec.weighted_scan(torch.ones(4, requires_grad=True), 0.5)
    with pytest.raises(TypeError, match=r"x must be of an integer, .*; got bfloat16"):
        mgrec.weighted_scan(torch.ones(4, dtype=torch.bfloat16), 0.5)
