"""Adjoints: ⟨A·dx, g⟩ = ⟨dx, Aᵀ·g⟩ for every function, axis and direction."""

import inspect
import re

import adjoint_cases
import dask.array as da
import numpy as np
import pytest
import scipy.signal
from internals import divide_among_threads, record_threads

import mgrec
from mgrec import adjoint, signal

REAL = {**adjoint_cases.scans(), **adjoint_cases.likelihoods()}
CASES = {**adjoint_cases.cases(), **adjoint_cases.varying_filters(), **REAL}
SHORT = (*adjoint_cases.QUICK_SCANS, *adjoint_cases.QUICK_LIKELIHOODS, *adjoint_cases.QUICK_FILTERS)
MEANS = adjoint_cases.means()
COMPLEX = {**adjoint_cases.cases(is_complex=True), **adjoint_cases.varying_filters(is_complex=True)}


GPU = pytest.mark.gpu
EMULATED = ("recurrence along axis 1", "tridiagonal along axis 1", *adjoint_cases.QUICK_LIKELIHOODS)
"""Cases whose kernels run on an emulated GPU by default."""


def marked(names, quick):
    """Names as parameters; those that are not `quick` are extended tests."""
    marks = dict.fromkeys(EMULATED, pytest.mark.emulated)
    marks |= {name: pytest.mark.extended for name in names if name not in quick}
    return [pytest.param(name, marks=marks.get(name, ())) for name in names]


def as_tuple(results):
    return results if isinstance(results, tuple) else (results,)


def on(xp, arrays, skipped=0):
    """Move arrays to a library; the first ones, and numbers, stay."""
    is_moved = [k >= skipped and isinstance(x, np.ndarray) for k, x in enumerate(arrays)]
    return [xp.asarray(x) if move else x for x, move in zip(arrays, is_moved, strict=True)]


def host(array):
    return array.get() if hasattr(array, "get") else np.asarray(array)


def coefficients(name):
    """The number of arguments that are coefficients of filters, which stay in host memory."""
    if name.startswith("varying"):
        return 0
    return 1 if "sosfilt" in name else 2 if "filter" in name or "convolution" in name else 0


def gradients_of(results):
    return [
        adjoint_cases.numbers(*np.shape(result), seed=9, is_complex=np.iscomplexobj(result))
        for result in results
    ]


def inner(a, b):
    return np.vdot(np.ravel(host(a)), np.ravel(host(b))).real


def solve(xp, name, case):
    """Return the results, their gradients, and the gradients of the arguments."""
    arrays = on(xp, case.arrays, coefficients(name))
    results = as_tuple(case.function(*arrays))
    gradients = gradients_of([host(result) for result in results])
    return gradients, case.adjoint(tuple(on(xp, gradients)), results, *arrays)


def check_shapes(case, found):
    for argument, gradient in zip(case.arrays, found, strict=True):
        assert (argument is None) == (gradient is None)
        if argument is not None:
            assert gradient.shape == np.shape(argument)
            assert np.iscomplexobj(host(gradient)) == np.iscomplexobj(argument)


@pytest.mark.usefixtures("short_segments")
@pytest.mark.parametrize("name", marked(CASES, {*adjoint_cases.cases(), *SHORT}))
def test_adjoint_identity(xp, name):
    check_identity(xp, name, CASES[name])


SEGMENTS = {**adjoint_cases.segments(adjoint_cases.MARKS), **adjoint_cases.scans(adjoint_cases.MARKS)}


@pytest.mark.parametrize("name", marked(SEGMENTS, adjoint_cases.QUICK_SEGMENTS))
def test_adjoint_identity_of_segments(xp, name):
    check_identity(xp, name, segment_case(name, xp.asarray(adjoint_cases.MARKS)), SEGMENTS[name])


def segment_case(name, marks):
    return {**adjoint_cases.segments(marks), **adjoint_cases.scans(marks)}[name]


@pytest.mark.parametrize("is_mask", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_labels_of_segments_are_masks(is_mask, reverse):
    """Each row has its own segments; gradients are those of separate calls."""
    labels = np.array([[0, 0, 0, 1, 1], [0, 1, 1, 1, 2]])
    s, t, g = (adjoint_cases.numbers(2, 5, seed=k) for k in range(3))
    changes = labels[:, 1:] != labels[:, :-1]
    mask = np.insert(changes, 4 if reverse else 0, False, axis=1)
    options = {"reverse": reverse, "reset": mask if is_mask else labels}
    w = mgrec.linear_recurrence(s, t, np.ones(2), **options)
    found = adjoint.linear_recurrence(g, w, s, t, np.ones(2), **options)
    of_initial = np.zeros(2)
    for row in range(2):
        for label in np.unique(labels[row]):
            part = row, labels[row] == label
            expected = adjoint.linear_recurrence(g[part], w[part], s[part], t[part], 1.0, reverse=reverse)
            for own, wanted in zip(found[:2], expected, strict=False):
                np.testing.assert_allclose(own[part], wanted, rtol=1e-13)
            of_initial[row] += expected[2]
    np.testing.assert_allclose(found[2], of_initial, rtol=1e-13)


def test_likelihoods_of_as_many_sequences_as_steps():
    """A mask of first steps along the wrong axis would broadcast too."""
    frames = adjoint_cases.numbers(3, 3, 2)
    model = np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.2, 0.8]])
    gradients = adjoint.hmm_log_likelihood(np.ones(3), *model, frames, axis=0)
    transposed = adjoint.hmm_log_likelihood(np.ones(3), *model, frames.swapaxes(0, 1), axis=1)
    for gradient, wanted in zip(gradients, (*transposed[:2], transposed[2].swapaxes(0, 1)), strict=True):
        np.testing.assert_allclose(gradient, wanted, rtol=1e-13)


@pytest.mark.extended
@pytest.mark.usefixtures("short_segments")
@pytest.mark.parametrize("name", adjoint_cases.likelihoods())
def test_adjoint_identity_of_segments_of_likelihoods(xp, name):
    # Marks of rows along axis 0 or 1.
    marks = adjoint_cases.MARKS[:, None] if name.endswith("0") else adjoint_cases.MARKS
    check_identity(xp, name, adjoint_cases.likelihoods(marks=xp.asarray(marks))[name])


def check_identity(xp, name, case, in_memory=None):
    """The tangent is that of a complex step, which has no cancellation.

    It is computed by the loop, or by the case of host memory, by default the same.
    """
    step, function = 1e-100, case.loop or (in_memory or case).function
    gradients, found = solve(xp, name, case)
    check_shapes(case, found)
    for k, argument in enumerate(case.arrays):
        if argument is None:
            continue
        direction = adjoint_cases.numbers(*np.shape(argument), seed=5)
        if "sosfilt" in name and k == 0:
            direction[:, 3] = 0  # is 1 in every section
        arrays = list(case.arrays)
        arrays[k] = argument + 1j * step * direction
        tangents = [result.imag / step for result in as_tuple(function(*arrays))]
        expected = sum(map(inner, gradients, tangents))
        size = sum(inner(abs(g), abs(v)) for g, v in zip(gradients, tangents, strict=True))
        assert abs(inner(found[k], direction) - expected) <= 1e-12 * size, k


@pytest.mark.parametrize("name", [*adjoint_cases.QUICK_FILTERS, "lfilter with states along axis 1"])
def test_threads_give_the_gradients_of_one(name, monkeypatch):
    divide_among_threads(monkeypatch, 4)
    counts, found = record_threads(monkeypatch), []
    for count in (1, 3):
        monkeypatch.setenv("MGREC_NUM_THREADS", str(count))
        found.append([gradient for gradient in solve(np, name, CASES[name])[1] if gradient is not None])
    assert set(counts) == {3}
    for one, several in zip(*found, strict=True):
        np.testing.assert_allclose(several, one, rtol=1e-12, atol=1e-14)


@pytest.mark.extended
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_gradients_are_those_of_torch(xp, name):
    """∂L/∂x + i·∂L/∂y, against central differences of error 1e-9."""
    case, step = COMPLEX[name], 1e-5
    gradients, found = solve(xp, name, case)
    check_shapes(case, found)
    for k, argument in enumerate(case.arrays):
        if argument is None:
            continue
        is_complex = np.iscomplexobj(argument)
        direction = adjoint_cases.numbers(*np.shape(argument), seed=5, is_complex=is_complex)
        if "sosfilt" in name and k == 0:
            direction[:, 3] = 0
        before, after = list(case.arrays), list(case.arrays)
        before[k], after[k] = argument - step * direction, argument + step * direction
        pairs = zip(as_tuple(case.function(*before)), as_tuple(case.function(*after)), strict=True)
        expected = sum(
            inner(g, (high - low) / (2 * step)) for g, (low, high) in zip(gradients, pairs, strict=True)
        )
        np.testing.assert_allclose(inner(found[k], direction), expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", MEANS)
def test_adjoint_identity_of_means(xp, name):
    case = MEANS[name]
    (x,) = case.arrays
    direction = np.where(np.isnan(x), np.nan, adjoint_cases.numbers(*x.shape, seed=5))
    tangent = case.function(direction)
    gradient = adjoint_cases.numbers(*x.shape, seed=9)
    (found,) = adjoint_cases.means(xp)[name].adjoint(on(xp, [gradient]), None, xp.asarray(x))
    expected = np.nansum(tangent * gradient)
    assert abs(np.nansum(host(found) * direction) - expected) <= 1e-12 * np.nansum(abs(tangent))
    np.testing.assert_array_equal(host(found)[np.isnan(x)], 0)


def chunked(array):
    return da.from_array(array, chunks=tuple(max(1, size // 2) for size in array.shape))


QUICK = (
    "recurrence along axis 1 in reverse",
    "lfilter with states along axis 1",
    "tridiagonal periodic along axis 0",
    "ewm adjusted",
    "rational along axis 1 in reverse",
    "general matrix (+) along axis 0 in reverse",
    *adjoint_cases.QUICK_LIKELIHOODS,
    *adjoint_cases.QUICK_FILTERS,
)


@pytest.mark.parametrize("name", marked([*CASES, *MEANS], QUICK))
def test_gradients_of_chunks(name):
    check_chunks(name, {**CASES, **MEANS}[name], {**CASES, **MEANS}[name])


@pytest.mark.parametrize("name", marked(SEGMENTS, adjoint_cases.QUICK_SEGMENTS[1:]))
def test_gradients_of_chunks_of_segments(name):
    marks = adjoint_cases.MARKS
    case, lazy = (
        {**adjoint_cases.segments(array), **adjoint_cases.scans(array)}[name]
        for array in (marks, chunked(marks))
    )
    check_chunks(name, case, lazy)


def check_chunks(name, case, lazy):
    """Compare gradients of Dask arrays, by the functions of `lazy`, with those of NumPy arrays."""
    first = coefficients(name)
    arrays = [
        chunked(x) if isinstance(x, np.ndarray) and k >= first and k not in case.in_memory else x
        for k, x in enumerate(case.arrays)
    ]
    results = as_tuple(case.function(*case.arrays))
    gradients = gradients_of(results)
    expected = case.adjoint(gradients, results, *case.arrays)
    found = lazy.adjoint([chunked(g) for g in gradients], [chunked(y) for y in results], *arrays)
    for own, wanted in zip(found, expected, strict=True):
        if wanted is not None:
            assert isinstance(own, da.Array)
            np.testing.assert_allclose(own.compute(), wanted, rtol=1e-12, atol=1e-12)


def test_gradients_of_empty_chunks():
    g, x = adjoint_cases.numbers(3, 9), adjoint_cases.numbers(3, 9, seed=1)
    b, a = [1.0], [1.0, -0.5]
    expected = adjoint.lfilter(g, mgrec.signal.lfilter(b, a, x), b, a, x)[2]
    lazy, g = (da.from_array(array, chunks=(3, (2, 0, 0, 6, 0, 1))) for array in (x, g))
    found = adjoint.lfilter(g, mgrec.signal.lfilter(b, a, lazy), b, a, lazy)[2]
    assert found.shape == (3, 9)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_gradients_of_lazy_states_alone():
    g, t = adjoint_cases.numbers(3, 9), adjoint_cases.numbers(3, 9, seed=1)
    w = mgrec.linear_recurrence(0.5, t)
    expected = adjoint.linear_recurrence(g, w, 0.5, t)
    found = adjoint.linear_recurrence(g, chunked(w), 0.5, chunked(t))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-12)


@pytest.mark.parametrize("convert", [lambda x: x.astype(">f8"), np.ndarray.tolist])
def test_results_that_are_no_plain_arrays(convert):
    g, x, w = (adjoint_cases.numbers(2, 9, seed=k) for k in range(3))
    polynomials = [1.0, 0.5], [1.0, -0.5]
    found = adjoint.lfilter(convert(g), convert(w), *polynomials, convert(x))
    for own, expected in zip(found, adjoint.lfilter(g, w, *polynomials, x), strict=True):
        np.testing.assert_array_equal(own, expected)
    found = adjoint.linear_recurrence(convert(g), convert(w), 0.5, convert(x))
    expected = adjoint.linear_recurrence(g, w, 0.5, x)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


def test_gradients_of_another_shape_are_refused():
    for size in (1, 3):
        with pytest.raises(ValueError, match=rf"the shape of w, \(4,\); got \({size},\)"):
            adjoint.linear_recurrence(np.ones(size), np.ones(4), 0.5, np.ones(4))
    with pytest.raises(TypeError, match="grad must be a plain array; got a masked array"):
        adjoint.linear_recurrence(np.ma.ones(4), np.ones(4), 0.5, np.ones(4))


FOUR, POLE = np.ones(4), ([1.0], [1.0, -0.5])
HEADS = [0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], np.zeros((4, 2))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: adjoint.linear_recurrence(FOUR, FOUR, None, FOUR), TypeError, "s must be of an"),
        (lambda: adjoint.linear_recurrence(None, FOUR, FOUR, FOUR), TypeError, "grad must be of"),
        (lambda: adjoint.linear_recurrence(FOUR, FOUR, FOUR), TypeError, "missing .* argument: 't'"),
        (lambda: adjoint.linear_recurrence(*[FOUR] * 6), TypeError, "too many positional arguments"),
        (lambda: adjoint.linear_recurrence(*[FOUR] * 4, s=FOUR), TypeError, "multiple values for .* 's'"),
        (lambda: adjoint.ewm(FOUR, FOUR, alpha=0.5, of="x"), TypeError, "unexpected keyword argument 'of'"),
        (
            lambda: adjoint.linear_recurrence(FOUR, FOUR, FOUR, FOUR, FOUR),
            ValueError,
            r"initial must broadcast to \(\), all rows; got \(4,\)",
        ),
        (
            lambda: adjoint.rational_recurrence(FOUR, FOUR, 1.0, FOUR, 1.0, 1.0, FOUR),
            ValueError,
            r"initial must broadcast to \(\), all rows; got \(4,\)",
        ),
        (
            lambda: adjoint.rational_recurrence(FOUR, FOUR, 1.0, None, 1.0, 1.0, 1.0),
            TypeError,
            "b must be of an",
        ),
        (
            lambda: adjoint.solve_tridiagonal(FOUR, FOUR, 1.0, 4.0, 1.0, FOUR, rhs_axis=1),
            ValueError,
            "rhs_axis must be from -1 to 0",
        ),
        (
            lambda: adjoint.solve_tridiagonal(FOUR, FOUR, 1.0, 4.0, 1.0, FOUR, rhs_axis=0),
            ValueError,
            "rhs_axis must be another axis than axis=0; got 0",
        ),
        (
            lambda: adjoint.lfilter(FOUR, FOUR, *POLE, FOUR[:3]),
            ValueError,
            r"y must have the shape of x, \(3,\); got \(4,\)",
        ),
        (
            lambda: adjoint.lfilter(FOUR, FOUR, *POLE, FOUR, zi=FOUR),
            ValueError,
            r"zi must have shape \(1,\); got \(4,\)",
        ),
        (
            lambda: adjoint.lfilter(FOUR, FOUR, *POLE, FOUR, grad_zf=FOUR),
            ValueError,
            r"grad_zf must have shape \(1,\); got \(4,\)",
        ),
        (
            lambda: adjoint.lfilter(FOUR, FOUR, *POLE, FOUR, form="direct I"),
            ValueError,
            "form must be 'transposed' or 'direct'; got 'direct I'",
        ),
        (
            lambda: adjoint.sosfilt(FOUR, FOUR, [[1.0, 0, 0, 1, -0.5, 0]], FOUR, grad_zf=FOUR),
            ValueError,
            r"grad_zf must have shape \(1, 2\); got \(4,\)",
        ),
        (lambda: adjoint.hmm_log_likelihood(None, *HEADS), TypeError, "grad must be of an"),
        (lambda: adjoint.hmm_log_likelihood(FOUR, *HEADS), ValueError, r"grad must broadcast to"),
        (lambda: adjoint.hmm_log_likelihood(1.0, *HEADS, of=3), ValueError, "of must be names"),
    ],
)
def test_errors_name_the_argument(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("name", adjoint.__all__)
def test_docstrings_describe_all_parameters(name):
    doc = inspect.getdoc(getattr(adjoint, name))
    section, examples = doc.split("Parameters\n----------\n")[1].split("\nReturns\n")
    headers = [line for line in section.splitlines() if not line.startswith(" ")]
    parameters = inspect.signature(getattr(adjoint, name)).parameters
    assert {*parameters} <= {*re.findall(r"\w+", " ".join(headers))}
    assert "Raises\n------\n" in examples
    assert "Examples\n--------\n" in examples


def test_only_gradients_that_are_wanted():
    case = CASES["recurrence along axis 1"]
    w, g = case.function(*case.arrays), adjoint_cases.numbers(3, 9)
    every = adjoint.linear_recurrence(g, w, *case.arrays)
    for k, name in enumerate(("s", "t", "initial")):
        found = adjoint.linear_recurrence(g, w, *case.arrays, of=name)
        assert [gradient is None for gradient in found] == [n != k for n in range(3)]
        np.testing.assert_array_equal(found[k], every[k])
    with pytest.raises(ValueError, match="of must be names among s, t, initial; got 'w'"):
        adjoint.linear_recurrence(g, w, *case.arrays, of="w")


def test_the_gradient_of_a_signal_alone_takes_one_pass():
    case = CASES["sosfilt along axis 1"]
    y, g = case.function(*case.arrays), adjoint_cases.numbers(3, 9)
    _, expected, _ = adjoint.sosfilt(g, y, *case.arrays[:2])
    no_sos, found, no_zi = adjoint.sosfilt(g, y, *case.arrays[:2], of="x")
    assert no_sos is no_zi is None
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("taps", [3, pytest.param(70, marks=GPU)])
def test_gradients_of_coefficients_are_sums_over_all_samples(xp, taps, axis):
    """Rows longer than the kernels sum at a time, against the loop of SciPy."""
    shape = (2, 70_000) if axis else (35_000, 4)
    x, g = (adjoint_cases.numbers(*shape, seed=seed) for seed in (1, 2))
    b, a = adjoint_cases.numbers(taps), adjoint_cases.A[:3] / adjoint_cases.A[0]
    y = signal.lfilter(b, a, x, axis)
    arrays = *on(xp, (g, y)), b, a, xp.asarray(x)
    grad_b, grad_a = map(host, adjoint.lfilter(*arrays, axis)[:2])
    u = np.flip(scipy.signal.lfilter([1.0], a, np.flip(g, axis), axis), axis)
    u, x, y = (np.moveaxis(array, axis, -1) for array in (u, x, y))
    size = np.sqrt((u**2).sum() * (y**2).sum())
    for k in range(taps):
        kept = slice(x.shape[-1] - k)
        assert abs(grad_b[k] - (u[:, k:] * x[:, kept]).sum()) <= 1e-13 * size
        if 0 < k < 3:
            assert abs(grad_a[k] + (u[:, k:] * y[:, kept]).sum()) <= 1e-13 * size


def test_dtypes_are_those_of_the_arguments():
    s, t = np.full(4, 0.5, np.float32), np.ones((3, 4), np.float32)
    w = mgrec.linear_recurrence(s, t)
    grad_s, grad_t, _ = adjoint.linear_recurrence(w, w, s, t)
    assert grad_s.dtype == grad_t.dtype == np.float32
    grad_s, grad_t, _ = adjoint.linear_recurrence(w, w, 2, t.astype(np.float64))
    assert (grad_s.dtype, grad_t.dtype) == (np.float32, np.float64)


def test_a_coefficient_has_no_gradient():
    s = mgrec.Coefficient(lambda i: 1 / (i + 1))
    with pytest.raises(TypeError, match="s must be an array or a number; got a Coefficient"):
        adjoint.linear_recurrence(np.ones(3), np.ones(3), s, np.ones(3))


def test_gradients_pass_through_infinite_states(xp):
    """A loss that does not depend on the infinite state, against central differences."""
    coefficients = [
        np.full(4, 2.0),
        np.array([1.0, 0.5, 0.3, 0.2]),
        np.ones(4),
        np.array([-1.0, 0.7, 0.4, 2.0]),
    ]
    gradient = np.array([0.0, 1.0, 2.0, -1.0])
    for initial in (1.0, np.inf):
        gradient[0] = initial == np.inf

        def loss(coefficients, initial=initial, gradient=gradient):
            p = mgrec.rational_recurrence(*coefficients, initial)
            return (gradient * np.where(np.isinf(p), 0, p)).sum()

        p = mgrec.rational_recurrence(*on(xp, coefficients), initial)
        assert np.isinf(host(p)[0]) == (initial == 1)
        found = adjoint.rational_recurrence(xp.asarray(gradient), p, *on(xp, coefficients), initial)[:4]
        for k, own in enumerate(found):
            for n in range(4):
                step = 1e-6 * ((np.arange(4) == k)[:, None] & (np.arange(4) == n))
                expected = (loss(coefficients + step) - loss(coefficients - step)) / 2e-6
                assert abs(host(own)[n] - expected) < 1e-7


def test_derivatives_that_do_not_fit():
    wrong = mgrec.TransferMap(
        lambda x: (x,),
        lambda f, g: (f[0] + g[0],),
        lambda f, w: f[0] + w,
        (0.0,),
        "sums",
        vjp=lambda grad, w, x: grad,
    )
    with pytest.raises(TypeError, match="vjp of sums must return a tuple of 2, gradients of the"):
        adjoint.scan(np.ones(3), np.ones(3), wrong, np.ones(3), initial=0.0)
    with pytest.raises(ValueError, match="of must be names among s, c, initial; got 'w'"):
        adjoint.scan(np.ones(3), np.ones(3), mgrec.maps.max_plus, 1.0, 0.0, initial=0.0, of="w")


def test_empty_arrays():
    empty = np.ones((2, 0))
    found = adjoint.linear_recurrence(empty, empty, empty, empty, np.ones(2))
    assert [gradient.shape for gradient in found] == [(2, 0), (2, 0), (2,)]
    np.testing.assert_array_equal(found[2], 0)


@pytest.mark.extended
@pytest.mark.parametrize("chunks", [None, -1])
def test_gradients_of_states_before_no_steps(chunks):
    empty, vectors, matrices = np.ones((2, 0)), np.ones((0, 2)), np.ones((0, 2, 2))
    if chunks is not None:
        empty, vectors, matrices = map(da.from_array, (empty, vectors, matrices))
    of_rational = adjoint.rational_recurrence(empty, empty, 1.0, empty, 0.0, 2.0, np.ones(2))
    of_queue = adjoint.scan(empty, empty, mgrec.maps.max_plus, empty, 0.0, initial=np.ones(2))
    of_matrix = adjoint.scan(vectors, vectors, mgrec.maps.matrix(2), matrices, vectors, initial=np.ones(2))
    for found in (of_rational, of_queue, of_matrix):
        np.testing.assert_array_equal(found[-1], np.zeros(2))
    one = np.ones((1, 1))
    found = adjoint.statespace_log_likelihood(
        1.0, vectors[:, :1], one, one, one, one, initial_state=[0.0], initial_state_cov=one
    )
    for gradient in found[1:7]:
        np.testing.assert_array_equal(gradient, np.zeros(gradient.shape))


def test_arrays_whose_chunks_are_all_empty():
    nothing = da.zeros(0, chunks=((0, 0, 0),))
    for found in adjoint.linear_recurrence(nothing, nothing, nothing, nothing):
        assert found is None or found.compute().shape == (0,)


def test_structures_without_gradients_are_refused():
    companion, vectors = mgrec.maps.matrix(2, structure="companion"), np.ones((5, 2))
    with pytest.raises(NotImplementedError, match="got a companion matrix"):
        mgrec.adjoint.scan(vectors, vectors, companion, vectors, vectors, initial=np.zeros(2))
