"""Public functions inside torch: autograd, ``torch.compile``, ``vmap``, devices and streams."""

from functools import partial

import adjoint_cases
import dask.array as da
import numpy as np
import pytest
from adjoint_cases import CASES, LIKELIHOODS, REAL, SEGMENTS, SHORT
from chunkings import with_extended

import mgrec
from mgrec import ndimage, signal, statespace

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'mgrec[torch]')")

# torch.compile imports parts of torch that torch deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")

QUICK_SEGMENTS = [f"{name} in segments" for name in adjoint_cases.QUICK_SEGMENTS]
COMPLEX = adjoint_cases.cases(is_complex=True)
VARYING = adjoint_cases.varying_filters()
COMPLEX_VARYING = adjoint_cases.varying_filters(is_complex=True)
DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.hardware])]
FEW = [name for name in CASES if "0" not in name and name not in REAL]
FEW += SHORT
LONG = [name for name in SEGMENTS if name not in QUICK_SEGMENTS]


def call_of(name, case):
    """The function, with a_0 = 1 in all sections whatever they are."""
    if "sosfilt" not in name:
        return case.function

    def call(sos, *arrays):
        is_first = torch.arange(6, device=sos.device) == 3
        return case.function(torch.where(is_first, 1.0, sos), *arrays)

    return call


def tensors_of(case, device="cpu", dtype=None):
    return [
        torch.tensor(x, device=device, dtype=dtype, requires_grad=True) if isinstance(x, np.ndarray) else x
        for x in case.arrays
    ]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("is_fast", with_extended([True, False], False))
@pytest.mark.parametrize(
    "name", with_extended([*CASES, *(f"complex {name}" for name in COMPLEX), *QUICK_SEGMENTS, *LONG], *LONG)
)
def test_gradients_of_both_orders(name, is_fast, device):
    """The fast mode compares projections of the matrices; test_adjoint.py compares their entries."""
    case = CASES.get(name) or SEGMENTS.get(name) or COMPLEX[name.removeprefix("complex ")]
    function, tensors = call_of(name, case), tensors_of(case, device)
    assert torch.autograd.gradcheck(function, tensors, fast_mode=is_fast)
    if is_fast and name.removesuffix(" in segments") not in LIKELIHOODS:
        assert torch.autograd.gradgradcheck(function, tensors, fast_mode=True)


@pytest.mark.extended
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("name", VARYING)
def test_gradients_of_varying_filters(name, is_complex, device):
    case = (COMPLEX_VARYING if is_complex else VARYING)[name]
    tensors = tensors_of(case, device)
    assert torch.autograd.gradcheck(case.function, tensors)
    assert torch.autograd.gradgradcheck(case.function, tensors, fast_mode=True)


@pytest.mark.parametrize("name", FEW)
def test_results_are_those_without_gradients(name):
    case = CASES[name]
    tensors = tensors_of(case)
    results = case.function(*tensors)
    expected = case.function(*case.arrays)
    if not isinstance(results, tuple):
        results, expected = (results,), (expected,)
    for result, wanted in zip(results, expected, strict=True):
        assert result.requires_grad
        np.testing.assert_array_equal(result.detach().numpy(), wanted)


LINEAR = adjoint_cases.linear()
LINEAR_NAMES = [
    name if name in adjoint_cases.QUICK_LINEAR else pytest.param(name, marks=pytest.mark.extended)
    for name in LINEAR
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", LINEAR_NAMES)
def test_linear_functions_of_signals_and_images(name, device):
    """The adjoint identity, second derivatives, and whole graphs."""
    function, array = LINEAR[name]
    x = torch.tensor(array, device=device, requires_grad=True)
    y = function(x)
    torch.testing.assert_close(y.detach(), function(x.detach()), rtol=0, atol=0)
    direction, g = (
        torch.tensor(adjoint_cases.numbers(*shape, seed=5), device=device) for shape in (x.shape, y.shape)
    )
    (found,) = torch.autograd.grad(y, x, g)
    tangent = function(direction)
    expected, size = (tangent * g).sum(), (tangent * g).abs().sum()
    assert abs((found * direction).sum() - expected) <= 1e-12 * size
    assert torch.autograd.gradgradcheck(function, x, fast_mode=True)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: loss_of(function, x), fullgraph=True, backend="aot_eager")
    expected, found = (torch.autograd.grad(loss, x)[0] for loss in (loss_of(function, x), compiled(x)))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    "function",
    [
        partial(ndimage.gaussian_filter, sigma=1.0, mode="constant"),
        partial(ndimage.gaussian_laplace, sigma=1.0, mode="constant"),
        partial(ndimage.uniform_filter, mode="constant"),
        ndimage.spline_filter,
    ],
)
def test_defaults_are_those_without_gradients(function):
    x = torch.tensor(adjoint_cases.numbers(7, 6), requires_grad=True)
    torch.testing.assert_close(function(x).detach(), function(x.detach()), rtol=0, atol=0)


def test_signals_of_float32_and_complex_numbers_keep_their_dtype():
    sos = np.array([[0.2, 0.3, 0.1, 1, -0.5, 0.1]], np.float32)
    x = torch.tensor(adjoint_cases.numbers(40), dtype=torch.float32, requires_grad=True)
    y = signal.sosfiltfilt(sos, x)
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert y.dtype == grad.dtype == torch.float32
    x = torch.tensor(adjoint_cases.numbers(40, is_complex=True), requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: signal.sosfiltfilt(sos, x), x)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: ndimage.gaussian_filter1d(x, 1.0, mode="nearest"), "need another mode; got 'n"),
        (lambda x: ndimage.gaussian_filter1d(x, 1.0, order=1), "need order 0 or 2, or the mode"),
        (lambda x: ndimage.uniform_filter1d(x, 4), "need an odd size and origin 0, or the mode"),
        (lambda x: ndimage.spline_filter(x, output=np.float32), "output is not supported where"),
        (lambda x: signal.decimate(x, 2, ftype="fir"), "decimate need ftype='iir'; got 'fir'"),
        (lambda x: signal.filtfilt([1.0], [1.0, 0.5], x, method="gust"), "leave it out, or compute"),
        (lambda x: signal.sosfiltfilt(x[:6][None], x), r"must not require gradients.* sos.detach"),
        (lambda x: mgrec.weighted_scan(x, 0.5), r"must not require gradients.*pass x.detach\(\)"),
    ],
)
def test_functions_without_gradients_say_what_to_do(call, message):
    x = torch.ones(40, dtype=torch.float64, requires_grad=True)
    with pytest.raises((NotImplementedError, TypeError), match=message):
        call(x)


def loss_of(function, *tensors):
    results = function(*tensors)
    return sum((y * y.sin()).sum() for y in (results if isinstance(results, tuple) else (results,)))


# A graph for any shape has all that a graph for one shape has.
OF_ONE_SHAPE = {
    "recurrence along axis 1",
    "lfilter with states along axis 1",
    "tridiagonal along axis 1",
    "general matrix (+) along axis 0 in reverse",
    "state space along axis 1",
}
GRAPHS = [
    pytest.param(
        name, dynamic, marks=() if name in (FEW if dynamic else OF_ONE_SHAPE) else pytest.mark.extended
    )
    for name in (*FEW, *LONG)
    for dynamic in (False, True)
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("name", "dynamic"), GRAPHS)
def test_compiled_graphs_are_whole(name, device, dynamic):
    check_graph(name, {**CASES, **SEGMENTS}[name], device, dynamic)


@pytest.mark.extended
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", [name for name in VARYING if "0" not in name])
def test_graphs_of_varying_filters_are_whole(name, dynamic):
    check_graph(name, VARYING[name], "cpu", dynamic)


def check_graph(name, case, device, dynamic):
    torch._dynamo.reset()
    function = call_of(name, case)
    # What this backend captures, others compile; inductor needs compilers of C++ and of Triton.
    compiled = torch.compile(
        lambda *tensors: loss_of(function, *tensors), fullgraph=True, dynamic=dynamic, backend="aot_eager"
    )
    plain, traced = tensors_of(case, device), tensors_of(case, device)
    loss_of(function, *plain).backward()
    compiled(*traced).backward()
    for expected, found in zip(plain, traced, strict=True):
        if isinstance(expected, torch.Tensor):
            torch.testing.assert_close(found.grad, expected.grad)


def test_coefficients_may_be_lists_and_arrays():
    x = torch.ones(5, requires_grad=True)
    wide = np.array([0.5]), torch.tensor([0.5], dtype=torch.float64)
    for b in ([0.5], (0.5,), *wide):
        y = signal.lfilter(b, [1, -0.5], x)
        assert y.dtype == (torch.float32 if isinstance(b, (list, tuple)) else torch.float64)
        (grad,) = torch.autograd.grad(y.sum(), x)
        expected = torch.tensor([0.96875, 0.9375, 0.875, 0.75, 0.5])
        torch.testing.assert_close(grad, expected, rtol=0, atol=0)


def test_lists_have_the_dtype_of_tensors_in_compiled_functions():
    compiled = torch.compile(
        lambda x: signal.lfilter([0.5], [1, -0.5], x), fullgraph=True, backend="aot_eager"
    )
    x = torch.ones(5, requires_grad=True)
    torch.testing.assert_close(compiled(x), signal.lfilter([0.5], [1, -0.5], x))


def test_a_coefficient_by_a_function_is_refused():
    s, t = mgrec.Coefficient(lambda i: 0.5 * i), torch.ones(3, requires_grad=True)
    with pytest.raises(TypeError, match="got a Coefficient, which has no gradient: compute its"):
        mgrec.linear_recurrence(s, t)


def test_numbers_promote_weakly():
    t = torch.ones(3, dtype=torch.float32, requires_grad=True)
    assert mgrec.linear_recurrence(0.5, t).dtype == torch.float32
    assert mgrec.linear_recurrence(0.5j, t).dtype == torch.complex64


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_tensors_of_two_bytes_have_states_of_float32(dtype, device):
    s, t = (x.to(device) for x in (torch.full((500,), 0.99), torch.ones(3, 500)))
    for shape in ((500,), (3, 500)):
        narrow = [x.to(dtype).requires_grad_() for x in (s.expand(shape), t)]
        wide = [x.detach().float().requires_grad_() for x in narrow]
        w, expected = mgrec.linear_recurrence(*narrow), mgrec.linear_recurrence(*wide)
        assert w.dtype == dtype
        torch.testing.assert_close(w, expected.to(dtype), rtol=0, atol=0)
        w.sum().backward()
        expected.sum().backward()
        for own, wanted in zip(narrow, wide, strict=True):
            assert own.grad.dtype == dtype
            torch.testing.assert_close(own.grad, wanted.grad.to(dtype), rtol=0.02, atol=0)
    assert mgrec.linear_recurrence(wide[0].detach(), narrow[1].detach()).dtype == torch.float32


def test_numbers_keep_their_precision_and_do_not_promote_bfloat16():
    t = torch.ones(3, 500, dtype=torch.bfloat16)
    w = mgrec.linear_recurrence(0.99, t)
    assert w.dtype == torch.bfloat16
    torch.testing.assert_close(w, mgrec.linear_recurrence(0.99, t.float()).bfloat16())
    decay = torch.tensor(0.99, requires_grad=True)
    w = mgrec.linear_recurrence(decay, t)
    assert w.dtype == torch.bfloat16
    (grad,) = torch.autograd.grad(w.float().sum(), decay)
    assert grad.dtype == torch.float32


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.extended)])
def test_filters_of_bfloat16_keep_their_coefficients(compiled):
    x = torch.linspace(-1, 1, 300, dtype=torch.bfloat16, requires_grad=True)
    a = torch.tensor([1, -0.9], requires_grad=True)

    def call(a, x):
        return signal.lfilter(torch.ones(1), a, x, zi=torch.zeros(1))

    y, zf = (torch.compile(call, fullgraph=True) if compiled else call)(a, x)
    wanted, last = call(a.detach(), x.detach().float())
    assert y.dtype == torch.bfloat16
    assert zf.dtype == torch.float32
    torch.testing.assert_close(y, wanted.bfloat16(), rtol=0, atol=0)
    torch.testing.assert_close(zf, last)
    of_a, of_x = torch.autograd.grad(y.float().sum() + zf.sum(), (a, x))
    wide = [v.detach().float().requires_grad_() for v in (a, x)]
    y, zf = call(*wide)
    expected = torch.autograd.grad(y.sum() + zf.sum(), wide)
    assert (of_a.dtype, of_x.dtype) == (torch.float32, torch.bfloat16)
    torch.testing.assert_close(of_a, expected[0], rtol=0.01, atol=0)
    torch.testing.assert_close(of_x.float(), expected[1], rtol=0.01, atol=0)


def test_only_needed_gradients_are_computed():
    s, t = torch.full((4,), 0.5), torch.ones(4, requires_grad=True)
    mgrec.linear_recurrence(s, t).sum().backward()
    assert s.grad is None
    torch.testing.assert_close(t.grad, torch.tensor([1.875, 1.75, 1.5, 1.0]))


def test_the_gradient_of_a_sum_takes_prepared_calls(monkeypatch):
    """It is expanded, with strides of 0."""
    unprepared, solve = [], mgrec.solve.solve
    monkeypatch.setattr(mgrec.solve, "solve", lambda *x: unprepared.append(x) or solve(*x))
    s, t = torch.rand(2, 2, 9, dtype=torch.float64).requires_grad_()
    for _ in range(3):
        unprepared.clear()
        mgrec.linear_recurrence(s, t).sum().backward()
    assert not unprepared


def test_repeated_calls_are_bound_once(monkeypatch):
    from mgrec.solve import torch_operators

    s, t, other = torch.rand(3, 2, 9, dtype=torch.float64)
    mgrec.linear_recurrence(s.clone().requires_grad_(), t, reverse=True)
    monkeypatch.setattr(torch_operators, "call", None)
    s.requires_grad_()
    mgrec.linear_recurrence(s, other, reverse=True).sum().backward()
    w, ones = mgrec.linear_recurrence(s.detach(), other, reverse=True), torch.ones_like(t)
    expected = mgrec.adjoint.linear_recurrence(ones, w, s.detach(), other, reverse=True)
    torch.testing.assert_close(s.grad, expected[0])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        w = mgrec.linear_recurrence(s, other, reverse=True)
        w.mul_(2).sum().backward()


def test_repeated_calls_see_which_tensors_are_one_and_which_require_gradients():
    s, t = torch.rand(2, 2, 9, dtype=torch.float64)
    for _ in range(2):
        for flags in ((True, False), (False, True), (True, True)):
            x, y = (a.detach().requires_grad_(flag) for a, flag in zip((s, t), flags, strict=True))
            w = mgrec.linear_recurrence(x, y)
            w.sum().backward()
            assert [a.grad is not None for a in (x, y)] == [*flags]
            with torch.no_grad():
                assert not mgrec.linear_recurrence(x, y).requires_grad
        twice = s.clone().requires_grad_()
        w = mgrec.linear_recurrence(twice, twice)
        torch.testing.assert_close(w.detach(), mgrec.linear_recurrence(s, s))
        expected = mgrec.adjoint.linear_recurrence(torch.ones_like(w), w.detach(), s, s)
        w.sum().backward()
        torch.testing.assert_close(twice.grad, expected[0] + expected[1])


def test_repeated_calls_keep_no_memory_of_coefficients():
    x, a = torch.rand(7, dtype=torch.float64).requires_grad_(), np.array([1.0, -0.5])
    y = signal.lfilter([1.0], a, x)
    a[1] = 0.25
    assert not torch.equal(signal.lfilter([1.0], a, x), y)
    torch.testing.assert_close(signal.lfilter([1.0], np.array([1.0, -0.5]), x), y)


def test_a_state_alone_is_differentiated():
    x, zi = torch.ones(4, requires_grad=True), torch.zeros(1, requires_grad=True)
    _, zf = signal.lfilter([1.0], [1.0, -0.5], x, zi=zi)
    zf.sum().backward()
    torch.testing.assert_close(x.grad, torch.tensor([0.0625, 0.125, 0.25, 0.5]))
    torch.testing.assert_close(zi.grad, torch.tensor([0.0625]))


def test_nothing_is_recorded_without_gradients():
    t = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        assert not mgrec.linear_recurrence(0.5, t).requires_grad
        assert not mgrec.weighted_scan(t, 0.5).requires_grad


def test_coefficients_alone_are_differentiated():
    b = torch.ones(2, requires_grad=True)
    signal.lfilter(b, [1.0, -0.5], np.ones(3, np.float32)).sum().backward()
    torch.testing.assert_close(b.grad, torch.tensor([4.25, 2.5]))


def test_arrays_that_torch_does_not_take():
    s, t = np.arange(4) / 4, torch.ones(4, requires_grad=True)
    for array in (s.astype(">f8"), s[::-1].copy()[::-1]):
        found = mgrec.linear_recurrence(array, t).detach()
        np.testing.assert_array_equal(found, mgrec.linear_recurrence(s, t.detach()))


@pytest.mark.parametrize("requires_grad", [False, True])
def test_tensors_beside_dask_arrays_are_refused(requires_grad):
    tensor, array = torch.ones(4, requires_grad=requires_grad), da.ones(4)
    matrix, rows = torch.ones(1, 1, requires_grad=requires_grad), da.ones((4, 1))
    calls = [
        lambda: mgrec.linear_recurrence(tensor, array),
        lambda: mgrec.solve_tridiagonal(tensor, tensor + 2, tensor, array),
        lambda: statespace.log_likelihood(
            rows,
            matrix,
            matrix,
            matrix,
            matrix,
            initial_state=np.zeros(1),
            initial_state_cov=np.eye(1),
            axis=0,
        ),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=r"must be of one library.*Tensor of torch and Array of"):
            call()


def test_lists_of_tensors_that_require_gradients_are_refused():
    p, x = torch.tensor(0.5, requires_grad=True), torch.ones(4)
    with pytest.raises(TypeError, match=r"b must be one tensor.* a list of .* torch\.stack"):
        signal.lfilter([1 - p], [1, -p], x)
    with pytest.raises(TypeError, match=r"input must be one tensor.* a list of .* torch\.stack"):
        ndimage.gaussian_filter([p, p], 1.0)


def test_forward_mode_is_refused():
    t = torch.ones(20)
    with pytest.raises(NotImplementedError, match="no derivatives in forward mode"):
        torch.func.jvp(lambda t: mgrec.linear_recurrence(0.5, t), (t,), (t,))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(t, t)
        for call in (
            lambda: mgrec.linear_recurrence(0.5, dual),
            lambda: signal.lfilter([1.0], [1.0, -0.5], dual, form="direct"),
            lambda: signal.ewm(t, alpha=dual[0] / 2),
        ):
            with pytest.raises(NotImplementedError, match="has no derivatives in forward mode"):
                call()
        with pytest.raises(TypeError, match="x must not have a tangent, since derivatives in forw"):
            mgrec.weighted_scan(dual, 0.5)
        assert mgrec.linear_recurrence(0.5, dual.detach())[1] == 1.5


def test_gradients_of_torch_func_are_refused():
    t = torch.ones(5)
    for function in (
        lambda s: mgrec.linear_recurrence(s, t),
        lambda s: signal.ewm(t, alpha=s),
        torch.func.vmap(lambda t: mgrec.linear_recurrence(t, t)),
    ):
        with pytest.raises(NotImplementedError, match=r"no derivatives in torch\.func: call torch\.a"):
            torch.func.grad(lambda s, f=function: f(s).sum())(torch.full((), 0.5).expand(5))


def test_vmap():
    s, t = torch.rand(3), torch.rand(3, 5)
    found = torch.func.vmap(mgrec.linear_recurrence)(s[:, None], t)
    torch.testing.assert_close(found, mgrec.linear_recurrence(s[:, None], t))
    with pytest.raises(ValueError, match="at least one element; got a batch of 0"):
        torch.func.vmap(mgrec.linear_recurrence)(s[:0, None], t[:0])


def test_labels_are_tensors_arrays_and_lists():
    s, t = (torch.rand(2, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    mask, labels = torch.tensor([False, True, False, True]), [3, 1, 1, 2]

    def gradients(w):
        first = torch.autograd.grad(w.sum(), (s, t), create_graph=True)
        return *first, *torch.autograd.grad(first[0].square().sum(), (s, t))

    w = mgrec.linear_recurrence(s, t, reset=mask)
    expected = gradients(w)
    for reset in (labels, np.array(labels), torch.tensor(labels)):
        found = mgrec.linear_recurrence(s, t, reset=reset)
        torch.testing.assert_close(found, w, rtol=0, atol=0)
        torch.testing.assert_close(gradients(found), expected, rtol=0, atol=0)
    with pytest.raises(TypeError, match="reset must be numbers, a mask of bool or labels that are"):
        mgrec.linear_recurrence(s, t, reset=["a", "b", "b", "c"])


@pytest.mark.parametrize("reverse", [False, True])
def test_lengths_are_lists_arrays_and_tensors(reverse):
    s, t = (torch.rand(4, dtype=torch.float64, requires_grad=True) for _ in range(2))

    def gradients(**options):
        w = mgrec.linear_recurrence(s, t, reverse=reverse, **options)
        return w, *torch.autograd.grad(w.sum(), (s, t))

    wanted = gradients(reset=mgrec.starts([3, 1], reverse=reverse))
    for lengths in ([3, 1], np.array([3, 1]), torch.tensor([3, 1])):
        torch.testing.assert_close(gradients(lengths=lengths), wanted, rtol=0, atol=0)


def test_options_without_gradients_are_refused():
    t = torch.ones(3, requires_grad=True)
    with pytest.raises(TypeError, match="out is not supported for tensors that require"):
        mgrec.linear_recurrence(0.5, t, out=torch.ones(3))


def test_a_map_without_a_derivative_is_refused():
    plain = mgrec.TransferMap(
        lambda x: (x,), lambda f, g: (f[0] + g[0],), lambda f, w: f[0] + w, (0.0,), "sums"
    )
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(TypeError, match="must have a derivative for gradients; sums has no vjp"):
        mgrec.scan(plain, x, initial=0.0)
    assert mgrec.scan(plain, x.detach(), initial=0.0)[-1] == 3


@pytest.mark.gpu
@pytest.mark.hardware
@pytest.mark.parametrize("on_host", [False, True])
def test_gradients_of_filters_with_coefficients_that_come_again(on_host):
    b, a = (torch.tensor(x, device="cpu" if on_host else "cuda") for x in ([0.5, 0.2], [2, -0.8, 0.3]))
    for step in range(6):
        if step == 3:
            a.data.mul_(0.9)  # which torch does not count as a new version
        x, grad = torch.randn(2, 3, 64, device="cuda")
        tensors = [t.detach().requires_grad_() for t in (b, a, x)]
        found = torch.autograd.grad(signal.lfilter(*tensors), tensors, grad)
        wide = [t.detach().double().cpu().requires_grad_() for t in tensors]
        expected = torch.autograd.grad(signal.lfilter(*wide), wide, grad.double().cpu())
        for own, wanted, t in zip(found, expected, tensors, strict=True):
            assert (own.dtype, own.device) == (t.dtype, t.device)
            torch.testing.assert_close(own.double().cpu(), wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.hardware
def test_the_current_stream():
    stream = torch.cuda.Stream()
    base = torch.rand(64, 4096, device="cuda")
    expected = mgrec.linear_recurrence(0.5, base + 1)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)  # t is written long after the call
        t = (base + 1).requires_grad_()
        w = mgrec.linear_recurrence(0.5, t)
        w.sum().backward()
        found, grad = w.detach() + 0, t.grad + 0
    stream.synchronize()
    torch.testing.assert_close(found, expected)
    wanted = mgrec.linear_recurrence(0.5, torch.ones_like(base), reverse=True)
    torch.testing.assert_close(grad, wanted)


@pytest.mark.parametrize("name", ["hidden states along axis 1", "state space along axis 1"])
def test_log_likelihoods_have_no_second_derivatives(name):
    tensors = [x for x in tensors_of(CASES[name]) if x is not None]
    grads = torch.autograd.grad(CASES[name].function(*tensors).sum(), tensors, create_graph=True)
    with pytest.raises(NotImplementedError, match="has no second derivatives in torch"):
        sum(grad.sum() for grad in grads).backward()
