"""Gradients by a smoothing factor of ``ewm`` and by the deviation of Gaussians, in torch."""

import adjoint_cases
import numpy as np
import pytest

from mgrec import ndimage
from mgrec.signal import ewm

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'mgrec[torch]')")

# torch.compile imports parts of torch that torch deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")

DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.hardware])]
GAPS = adjoint_cases.numbers(3, 9, seed=2)
GAPS[0, 0] = GAPS[1, 3:6] = np.nan
GAPS[2, 4] = np.inf
OPTIONS = {
    "adjusted": {},
    "not adjusted": {"adjust": False},
    "ignoring gaps": {"ignore_na": True, "min_periods": 2},
    "not adjusted, ignoring gaps": {"ignore_na": True, "adjust": False},
    "of segments": {"reset": adjoint_cases.MARKS},
    "of segments, not adjusted": {"reset": adjoint_cases.MARKS, "adjust": False},
    "along axis 0": {"axis": 0, "adjust": False},
}
RATES = {"alpha": 0.3, "span": 4.0, "halflife": 1.5, "com": 1.6}


def number(value, device="cpu", dtype=torch.float64):
    return torch.tensor(value, dtype=dtype, device=device, requires_grad=True)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("options", "name"),
    [(options, "alpha") for options in OPTIONS.values()] + [({}, name) for name in RATES],
    ids=[*OPTIONS, *RATES],
)
def test_gradients_of_means_by_their_rate(options, name, device):
    values = torch.tensor(GAPS, device=device)
    x = torch.tensor(adjoint_cases.numbers(3, 9, seed=3), device=device, requires_grad=True)

    def mean(x, rate):
        return ewm(torch.where(values.isfinite(), x, values), **{name: rate}, **options).nan_to_num()

    rate = number(RATES[name], device)
    assert torch.autograd.gradcheck(mean, (x, rate))
    detached = mean(x.detach(), RATES[name])
    torch.testing.assert_close(mean(x, rate).detach(), detached, rtol=0, atol=0)
    (grad,) = torch.autograd.grad(mean(x, RATES[name]).sum(), x)
    assert grad.isfinite().all()


@pytest.mark.parametrize("name", RATES)
def test_extreme_rates_have_gradients(name):
    x, value = torch.tensor(GAPS), {"alpha": 1.0, "span": 1.0, "halflife": 1e-3, "com": 0.0}[name]
    rate, step = number(value), -1e-6 if name == "alpha" else 1e-6
    ewm(x, **{name: rate}).nan_to_num().sum().backward()
    with torch.no_grad():
        after, before = (ewm(x, **{name: v}).nan_to_num().sum() for v in (value + step, value))
    torch.testing.assert_close(rate.grad, (after - before) / step, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", ["reflect", "mirror", "wrap", "constant"])
@pytest.mark.parametrize("sigma", [0.4, 1.0, 6.0])
def test_gradients_of_gaussians_by_sigma(sigma, mode, device):
    """They are those of the true Gaussian: the fit has an error of its own."""
    x = torch.tensor(adjoint_cases.numbers(3, 40), device=device, requires_grad=True)
    bound, sigma = 3e-5 / sigma, number(sigma, device)

    def smooth(x, sigma):
        return ndimage.gaussian_filter1d(x, sigma, mode=mode, cval=0.5)

    # Sums of the errors of all weights, each of at most 1e-5/sigma times the largest weight.
    assert torch.autograd.gradcheck(smooth, (x, sigma), rtol=0, atol=bound)


def test_gradients_of_gaussians_by_sigmas_of_axes():
    image = torch.tensor(adjoint_cases.numbers(6, 7), requires_grad=True)
    sigmas = number([1.0, 2.0])
    assert torch.autograd.gradcheck(ndimage.gaussian_filter, (image, sigmas), rtol=0, atol=1e-5)
    ndimage.gaussian_filter(image.detach(), [*sigmas]).square().sum().backward()
    assert (sigmas.grad != 0).all()
    fixed = torch.tensor([0.0, 2.0])  # 0 leaves an axis
    expected = ndimage.gaussian_filter(image.detach(), fixed)
    torch.testing.assert_close(ndimage.gaussian_filter(image, fixed).detach(), expected)


def test_a_complex_image_has_a_real_gradient_by_sigma():
    x = torch.tensor(adjoint_cases.numbers(40, is_complex=True))
    sigma = number(1.5)
    assert torch.autograd.gradcheck(
        lambda sigma: ndimage.gaussian_filter1d(x, sigma), sigma, rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("device", DEVICES)
def test_parameters_keep_their_dtype_device_and_shape(device):
    x = torch.tensor(adjoint_cases.numbers(40), dtype=torch.float32, device=device)
    for function, name in ((ewm, "span"), (ndimage.gaussian_filter1d, "sigma")):
        rate = number([2.5], device, torch.float32)
        y = function(x, **{name: rate})
        y.sum().backward()
        assert y.dtype == torch.float32 and y.device == x.device
        assert rate.grad.shape == (1,) and rate.grad.dtype == torch.float32
        torch.testing.assert_close(y.detach(), function(x, **{name: 2.5}), rtol=0, atol=0)
    with pytest.raises(TypeError, match="span must be a real number; got a tensor of 2"):
        ewm(x, span=number([2.0, 3.0]))
    with pytest.raises(ValueError, match=r"span must be a finite number, span >= 1; got 0\.5"):
        ewm(x, span=number(0.5))


def test_parameters_in_compiled_graphs():
    x = torch.tensor(adjoint_cases.numbers(3, 9), requires_grad=True)

    def loss(x, alpha, sigma):
        return (ndimage.gaussian_filter(ewm(x, alpha=alpha), sigma) ** 2).sum()

    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    arguments = x, number(0.3), number(1.5)
    found, expected = (torch.autograd.grad(f(*arguments), arguments) for f in (compiled, loss))
    torch.testing.assert_close(found, expected)


def test_second_derivatives_by_parameters_are_refused():
    x = torch.tensor(adjoint_cases.numbers(9), requires_grad=True)
    for function, name in ((ewm, "alpha"), (ndimage.gaussian_filter1d, "sigma")):
        y = function(x, **{name: number(0.4)}).square().sum()
        (grad,) = torch.autograd.grad(y, x, create_graph=True)
        with pytest.raises(NotImplementedError, match=f"second derivatives where {name} has a"):
            grad.sum().backward()
    with pytest.raises(NotImplementedError, match="sigma has a gradient for order 0 alone; got"):
        ndimage.gaussian_laplace(x, number(1.0))
