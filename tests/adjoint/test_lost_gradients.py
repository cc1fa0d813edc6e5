"""No public function loses the gradient of an argument in torch: it computes it, or raises."""

import inspect
from operator import attrgetter

import numpy as np
import pytest

import mgrec
from mgrec import adjoint, hmm, maps, ndimage, signal, statespace
from mgrec.cli.examples import EXAMPLES

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'mgrec[torch]')")

X = np.linspace(0.1, 0.9, 30)
SYSTEM = {"dl": X, "d": X + 2, "du": X}
BLOCKS = {name: diagonal[:, None, None] for name, diagonal in SYSTEM.items()}


def arguments_of(path):
    """Arguments of a function by name, from the table of examples."""
    (example,) = (example for example in EXAMPLES if example.path == path)
    return {**example.data, **example.others}


def scan(s, t, **options):
    return mgrec.scan(maps.affine, s, t, **options)


def adjoint_of_scan(grad, states, s, t, **options):
    return adjoint.scan(grad, states, maps.affine, s, t, **options)


def solve_by_factors(b):
    return mgrec.factor_tridiagonal(**SYSTEM).solve(b)


FILTER, SECTIONS = arguments_of("signal.lfilter"), arguments_of("signal.sosfilt")
CALLS = {
    **{attrgetter(example.path)(mgrec): arguments_of(example.path) for example in EXAMPLES},
    mgrec.scan: {"s": X, "t": X, "initial": 0.5},
    mgrec.factor_tridiagonal: SYSTEM,
    solve_by_factors: {"b": X},
    mgrec.wavefront: arguments_of("wavefront") | {"above": X[:7]},
    mgrec.starts: {"lengths": [2, 3]},
    ndimage.gaussian_filter: arguments_of("ndimage.gaussian_filter") | {"sigma": (1.0, 2.0)},
    signal.lfilter_zi: {"b": FILTER["b"], "a": FILTER["a"]},
    signal.lfiltic: {"b": FILTER["b"], "a": FILTER["a"], "y": [0.5], "x": [0.5]},
    signal.sosfilt_zi: {"sos": SECTIONS["sos"]},
    adjoint.ewm: {"grad": X, "x": X, "alpha": 0.5},
    adjoint.hmm_log_likelihood: {"grad": 1.0, **arguments_of("hmm.log_likelihood")},
    adjoint.lfilter: {"grad": FILTER["x"], "y": FILTER["x"], **FILTER},
    adjoint.linear_recurrence: {"grad": X, "w": X, "s": X, "t": X},
    adjoint.rational_recurrence: {"grad": X, "p": X, "a": X, "b": X, "c": X, "d": X + 1, "initial": 0.5},
    adjoint.scan: {"grad": X, "states": X, "s": X, "t": X, "initial": 0.5},
    adjoint.solve_banded: {"grad": X, "x": X, "l_and_u": (0, 1), "ab": np.stack([X, X + 1]), "b": X},
    adjoint.solve_block_tridiagonal: {"grad": X[:, None], "x": X[:, None], **BLOCKS, "b": X[:, None]},
    adjoint.solve_tridiagonal: {"grad": X, "x": X, **SYSTEM, "b": X},
    adjoint.sosfilt: {"grad": SECTIONS["x"], "y": SECTIONS["x"], **SECTIONS},
    adjoint.statespace_log_likelihood: {"grad": 1.0, **arguments_of("statespace.log_likelihood")},
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
