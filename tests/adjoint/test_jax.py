"""Public functions inside jax: jit, grad of both orders, and vmap."""

import adjoint_cases
import numpy as np
import pytest
from adjoint_cases import LIKELIHOODS, SHORT

import mgrec
from mgrec import ndimage, signal

jax = pytest.importorskip("jax", reason="jax is not installed (pip install 'mgrec[dev]')")
pytestmark = pytest.mark.extended

CASES = {**adjoint_cases.CASES, **adjoint_cases.SEGMENTS}
FEW = [name for name in CASES if "axis 0" not in name or name in SHORT]
VARYING = adjoint_cases.varying_filters()


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        yield


def call_of(name):
    """The function of the arrays alone, with a_0 = 1 in all sections; and the arrays."""
    case = CASES.get(name) or VARYING[name]
    places = [k for k, x in enumerate(case.arrays) if isinstance(x, np.ndarray)]

    def call(*arrays):
        arguments = list(case.arrays)
        for place, array in zip(places, arrays, strict=True):
            arguments[place] = array
        if "sosfilt" in name:
            arguments[0] = jax.numpy.where(np.arange(6) == 3, 1.0, arguments[0])
        return case.function(*arguments)

    return call, [case.arrays[k] for k in places]


def test_gradients_by_parameters():
    from jax.test_util import check_grads

    x = jax.numpy.asarray(np.random.default_rng(0).normal(size=9))
    means, smooth = (lambda rate: signal.ewm(x, alpha=rate)), ndimage.gaussian_filter1d
    check_grads(means, (0.3,), order=1, modes=["rev"])
    check_grads(lambda sigma: smooth(x, sigma), (1.5,), order=1, modes=["rev"], atol=1e-4)


@pytest.mark.parametrize("name", FEW)
def test_gradients(name):
    from jax.test_util import check_grads

    call, arrays = call_of(name)
    # The weights of a mean depend on which values are missing, and so on the values.
    is_first_order = name == "ewm" or name.removesuffix(" in segments") in LIKELIHOODS
    check_grads(call, arrays, order=1 if is_first_order else 2, modes=("rev",))


@pytest.mark.extended
@pytest.mark.parametrize("name", [name for name in VARYING if "0" not in name])
def test_varying_filters(name):
    from jax.test_util import check_grads

    call, arrays = call_of(name)
    check_grads(call, arrays, order=2, modes=("rev",))
    jax.tree.map(np.testing.assert_array_equal, jax.jit(call)(*arrays), call(*arrays))


@pytest.mark.parametrize("name", FEW)
def test_jit(name):
    call, arrays = call_of(name)
    jax.tree.map(np.testing.assert_array_equal, jax.jit(call)(*arrays), call(*arrays))


LINEAR = adjoint_cases.linear()


@pytest.mark.parametrize("name", [name for name in LINEAR if "axis 0" not in name])
def test_linear_functions_of_signals_and_images(name):
    from jax.test_util import check_grads

    function, x = LINEAR[name]
    check_grads(function, (x,), order=2, modes=("rev",))
    expected = function(x)
    np.testing.assert_array_equal(jax.jit(function)(x), expected)
    np.testing.assert_array_equal(jax.vmap(function)(x[None])[0], expected)


def test_coefficients_without_gradients_are_refused():
    with pytest.raises(TypeError, match="sos must be an array that jax does not trace"):
        jax.grad(lambda sos: signal.sosfiltfilt(sos, np.ones(40)).sum())(adjoint_cases.SOS)


def test_complex_gradients_are_those_of_jax():
    s = np.array([0.5 + 0.2j, -0.3j, 0.4 - 0.1j])

    def loop(s):
        w = 0
        for k in range(3):
            w = s[k] * w + 1
        return abs(w)

    found = jax.grad(lambda s: abs(mgrec.linear_recurrence(s, np.ones(3))[-1]))(s)
    np.testing.assert_allclose(found, jax.grad(loop)(s), rtol=1e-12)


def test_vmap():
    s, t = adjoint_cases.numbers(3), adjoint_cases.numbers(3, 5)
    found = jax.vmap(mgrec.linear_recurrence)(s, t)
    np.testing.assert_array_equal(found, mgrec.linear_recurrence(s[:, None], t))
    along_0 = jax.vmap(lambda t: mgrec.linear_recurrence(0.5, t, axis=0))(t[..., None])
    np.testing.assert_array_equal(along_0[..., 0], mgrec.linear_recurrence(0.5, t))

    def loss(s, t):
        return (mgrec.linear_recurrence(s, t) ** 2).sum()

    found = jax.vmap(jax.grad(loss), (None, 0))(0.5, t)
    expected = [jax.grad(loss)(0.5, row) for row in t]
    np.testing.assert_allclose(found, np.array(expected), rtol=1e-12)


def test_errors_name_the_axis_of_the_call():
    with pytest.raises(Exception, match=r"axis must be from -2 to 1 for shape \(2, 3\); got 2"):
        jax.jit(lambda t: mgrec.linear_recurrence(0.5, t, axis=2))(np.ones((2, 3)))


def test_narrow_numbers_stay_narrow():
    x = jax.numpy.ones(5, np.float32)
    found = jax.grad(lambda x: signal.lfilter([0.5], [1, -0.5], x).sum())(x)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [0.96875, 0.9375, 0.875, 0.75, 0.5])


def test_numbers_of_bfloat16():
    s, t = jax.numpy.asarray(0.5, "bfloat16"), jax.numpy.ones(3, "bfloat16")
    assert jax.grad(lambda s: mgrec.linear_recurrence(s, t).sum())(s) == 3


def test_empty_arrays():
    found = jax.grad(lambda t, w: mgrec.linear_recurrence(0.5, t, w).sum(), argnums=(0, 1))(
        np.ones((2, 0)), np.ones(2)
    )
    assert found[0].shape == (2, 0)
    np.testing.assert_array_equal(found[1], 0)


def test_coefficients_alone_are_traced():
    found = jax.grad(lambda b: signal.lfilter(b, [1.0, -0.5], np.ones(3)).sum())(np.ones(2))
    np.testing.assert_array_equal(found, [4.25, 2.5])


def test_options_without_gradients_are_refused():
    with pytest.raises(TypeError, match="out is not supported for traced arrays of jax; got a"):
        jax.jit(lambda t: mgrec.linear_recurrence(0.5, t, out=np.ones(3)))(np.ones(3))
    with pytest.raises(TypeError, match=r"must be an array; got a tracer.* call mgrec outside"):
        jax.jit(lambda t: mgrec.weighted_scan(t, 0.5))(np.ones(3))


def test_an_interface_of_xla_that_is_too_new(monkeypatch):
    """Results and gradients are the same, and a warning says what it costs."""
    from mgrec.solve import jax_callbacks

    t = np.random.default_rng(81).standard_normal((3, 50))

    def loss(t):
        return (mgrec.linear_recurrence(0.5, t) ** 2).sum()

    def results():
        return loss(t), jax.jit(jax.grad(loss))(t), jax.jit(jax.vmap(jax.grad(loss)))(t)

    expected = [np.asarray(result) for result in results()]
    jax.clear_caches()
    monkeypatch.setattr(jax_callbacks, "_NEWEST", (0, 0))
    jax_callbacks._has_known_interface.cache_clear()
    try:
        with pytest.warns(UserWarning, match="traced arrays of jax are copied"):
            got = [np.asarray(result) for result in results()]
    finally:
        jax.clear_caches()
        jax_callbacks._has_known_interface.cache_clear()
    for result, value in zip(got, expected, strict=True):
        np.testing.assert_array_equal(result, value)
