"""No public function loses the gradient of an argument in torch: it computes it, or raises."""

import inspect

import numpy as np
import pytest

import mgrec
from mgrec import adjoint, hmm, maps, ndimage, signal, statespace

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'mgrec[torch]')")

X, B, A = np.linspace(0.1, 0.9, 30), np.array([0.5, 0.2]), np.array([1.0, -0.5])
SOS = np.array([[0.2, 0.1, 0.0, 1.0, -0.7, 0.1]])
IMAGE = X.reshape(5, 6)
FRAMES = -X.reshape(15, 2)
CHAIN = {"startprob": [0.5, 0.5], "transmat": np.full((2, 2), 0.5)}
SHARED = {"design": np.eye(1), "transition": np.eye(1), "initial_state": np.zeros(1), "axis": 0}
MODEL = {
    **SHARED,
    "endog": X[:, None],
    "obs_cov": np.eye(1),
    "state_cov": np.eye(1),
    "initial_state_cov": np.eye(1),
}
SYSTEM = {"dl": X, "d": X + 2, "du": X}
BLOCKS = {name: diagonal[:, None, None] for name, diagonal in SYSTEM.items()}


def scan(s, t, **options):
    return mgrec.scan(maps.affine, s, t, **options)


def adjoint_of_scan(grad, states, s, t, **options):
    return adjoint.scan(grad, states, maps.affine, s, t, **options)


def solve_by_factors(b):
    return mgrec.factor_tridiagonal(**SYSTEM).solve(b)


CALLS = {
    mgrec.linear_recurrence: {"s": X, "t": X},
    mgrec.rational_recurrence: {"a": X, "b": X, "c": X, "d": X + 1, "initial": 0.5},
    mgrec.scan: {"s": X, "t": X, "initial": 0.5},
    mgrec.weighted_scan: {"x": X, "weights": X},
    mgrec.solve_tridiagonal: {**SYSTEM, "b": X},
    mgrec.solve_banded: {"l_and_u": (0, 1), "ab": np.stack([X, X + 1]), "b": X},
    mgrec.solve_block_tridiagonal: {**BLOCKS, "b": X[:, None]},
    mgrec.factor_tridiagonal: SYSTEM,
    solve_by_factors: {"b": X},
    mgrec.summed_area_table: {"x": IMAGE},
    mgrec.sor: {"x": IMAGE, "rhs": IMAGE},
    mgrec.wavefront: {"local": IMAGE, "weights": (0.3, 0.3, 0.2), "above": X[:6]},
    mgrec.smith_waterman: {"query": [0, 1], "target": [0, 1], "match": 1, "mismatch": -1, "gap": -2},
    mgrec.starts: {"lengths": [2, 3]},
    signal.decimate: {"x": X, "q": 2, "n": 1},
    signal.ewm: {"x": X, "alpha": 0.5},
    signal.filtfilt: {"b": B, "a": A, "x": X},
    signal.lfilter: {"b": B, "a": A, "x": X},
    signal.lfilter_zi: {"b": B, "a": A},
    signal.lfiltic: {"b": B, "a": A, "y": [0.5], "x": [0.5]},
    signal.sosfilt: {"sos": SOS, "x": X},
    signal.sosfilt_zi: {"sos": SOS},
    signal.sosfiltfilt: {"sos": SOS, "x": X},
    ndimage.gaussian_filter: {"input": IMAGE, "sigma": (1.0, 2.0)},
    ndimage.gaussian_filter1d: {"input": X, "sigma": 1.5},
    ndimage.gaussian_laplace: {"input": IMAGE, "sigma": 1.5},
    ndimage.spline_filter: {"input": IMAGE},
    ndimage.spline_filter1d: {"input": X},
    ndimage.uniform_filter: {"input": IMAGE},
    ndimage.uniform_filter1d: {"input": X, "size": 3},
    hmm.forward_backward: {**CHAIN, "log_frameprob": FRAMES},
    hmm.log_likelihood: {**CHAIN, "log_frameprob": FRAMES},
    hmm.sample: {**CHAIN, "uniform": X},
    hmm.viterbi: {**CHAIN, "log_frameprob": FRAMES},
    statespace.kalman_filter: MODEL,
    statespace.kalman_smoother: MODEL,
    statespace.log_likelihood: MODEL,
    statespace.sample: {**SHARED, "measurement_shocks": X[:, None], "state_shocks": X[:, None]},
    adjoint.ewm: {"grad": X, "x": X, "alpha": 0.5},
    adjoint.hmm_log_likelihood: {"grad": 1.0, **CHAIN, "log_frameprob": FRAMES},
    adjoint.lfilter: {"grad": X, "y": X, "b": B, "a": A, "x": X},
    adjoint.linear_recurrence: {"grad": X, "w": X, "s": X, "t": X},
    adjoint.rational_recurrence: {"grad": X, "p": X, "a": X, "b": X, "c": X, "d": X + 1, "initial": 0.5},
    adjoint.scan: {"grad": X, "states": X, "s": X, "t": X, "initial": 0.5},
    adjoint.solve_banded: {"grad": X, "x": X, "l_and_u": (0, 1), "ab": np.stack([X, X + 1]), "b": X},
    adjoint.solve_block_tridiagonal: {"grad": X[:, None], "x": X[:, None], **BLOCKS, "b": X[:, None]},
    adjoint.solve_tridiagonal: {"grad": X, "x": X, **SYSTEM, "b": X},
    adjoint.sosfilt: {"grad": X, "y": X, "sos": SOS, "x": X},
    adjoint.statespace_log_likelihood: {"grad": 1.0, **MODEL},
}
"""Arguments of a call of each public function, by name."""
BY_NAME = {mgrec.scan: scan, adjoint.scan: adjoint_of_scan}
"""Functions whose operands have no names, with names for them."""
OTHERS = {
    # Classes, and functions of functions.
    mgrec.Coefficient,
    mgrec.Sequences,
    mgrec.TransferMap,
    mgrec.check_laws,
    mgrec.plan,
}


def parameters_of(function):
    named = inspect.signature(function).parameters
    found = [name for name, x in named.items() if x.kind not in (x.VAR_POSITIONAL, x.VAR_KEYWORD)]
    return [*CALLS[function], *(x for x in found if x not in (*CALLS[function], "transfer_map"))]


PLACES = [
    pytest.param(function, name, is_list, id=f"{function.__module__}-{function.__name__}-{text}")
    for function in CALLS
    for name in parameters_of(function)
    for is_list, text in ((False, name), (True, f"list of {name}"))
    if not is_list or np.ndim(CALLS[function].get(name, 0.5))
]


def test_the_table_has_all_public_functions():
    modules = mgrec, signal, ndimage, hmm, statespace, adjoint
    public = {getattr(module, name) for module in modules for name in module.__all__}
    assert {x for x in public if callable(x)} == {*CALLS, *OTHERS} - {solve_by_factors}


def leaves(result):
    if isinstance(result, (tuple, list)):
        return [x for item in result for x in leaves(item)]
    return [result]


@pytest.mark.parametrize(("function", "name", "is_list"), PLACES)
def test_no_argument_loses_its_gradient(function, name, is_list):
    arguments = CALLS[function]
    tensor = torch.tensor(np.asarray(arguments.get(name, 0.5), float), requires_grad=True)
    passed = {**arguments, name: [*tensor] if is_list else tensor}
    if name in ("span", "com", "halflife"):
        passed["alpha"] = None
    try:
        result = BY_NAME.get(function, function)(**passed)
    except (NotImplementedError, TypeError, ValueError) as error:
        assert name in str(error)
        return
    loss = sum(x.abs().sum() for x in leaves(result) if x.requires_grad)
    assert torch.autograd.grad(loss, tensor)[0].shape == tensor.shape
