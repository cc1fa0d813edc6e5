"""Gradients of tensors over a group of ranks: each has those of its part, from all parts."""

import sys

import numpy as np
import pytest
from thread_group import ThreadGroup, part_of, run_on_ranks, solve_on_ranks

import mgrec
from mgrec.signal import lfilter, sosfilt

torch = pytest.importorskip("torch")

# The parts of four ranks: one is empty, and one has a single step.
BOUNDS = (0, 13, 13, 14, 30)
STEPS, RANKS = BOUNDS[-1], len(BOUNDS) - 1
SOS = np.array([[0.1, 0.2, 0.1, 1, -1.2, 0.5], [1, 0, -1, 1, -0.9, 0.4]])


def signals(*shapes, low=-0.9, high=0.9):
    generator = np.random.default_rng(1)
    return [generator.uniform(low, high, shape) for shape in shapes]


def of_scan(transfer_map, **given):
    def scan(*operands, **options):
        *operands, initial = operands
        return mgrec.scan(transfer_map, *operands, initial=initial, **given, **options)

    return scan


def filtered(b, a, x, zi, **options):
    """The output and the final states, whose gradients of all ranks are added."""
    y, zf = lfilter(b, a, x, zi=zi, **options)
    return y, zf / RANKS if "group" in options else zf


def of_probabilities(startprob, transmat, log_frameprob, **options):
    probabilities = (torch.softmax(x, -1) for x in (startprob, transmat))
    return mgrec.hmm.log_likelihood(*probabilities, log_frameprob, **options)


def of_covariances(endog, design, obs_cov, transition, state_cov, mean, cov, **options):
    obs_cov, state_cov, cov = (x @ x.mT + torch.eye(len(x)) for x in (obs_cov, state_cov, cov))
    return mgrec.statespace.log_likelihood(
        endog, design, obs_cov, transition, state_cov, initial_state=mean, initial_state_cov=cov, **options
    )


MARKS = np.arange(STEPS) % 7 == 3
BANDS = torch.tensor([[0.0], [5.0], [0.0]])
EYE = torch.eye(2)
CASES = {
    "arrays": (mgrec.linear_recurrence, signals(STEPS, STEPS, ())),
    "constant": (mgrec.linear_recurrence, signals((), STEPS, ())),
    "array of one coefficient": (mgrec.linear_recurrence, signals((1, 1), (STEPS, 2), 2)),
    "rows": (mgrec.linear_recurrence, signals((STEPS, 1), (STEPS, 2), 2)),
    "maximum": (of_scan(mgrec.maps.max_plus), signals(STEPS, STEPS, ())),
    "affine": (of_scan(mgrec.maps.affine), signals(STEPS, STEPS, ())),
    "rational": (mgrec.rational_recurrence, signals(STEPS, STEPS, STEPS, STEPS, (), low=0.5, high=1.5)),
    "two states": (
        lambda s, t, u, v, **options: torch.stack(
            mgrec.scan(mgrec.maps.matrix2, s, 0.5, 0.25, 0.5, t, 0.0, initial=(u, v), **options)
        )[..., :],
        signals(STEPS, STEPS, (), ()),
    ),
    "matrices": (of_scan(mgrec.maps.matrix(2)), [0.5 * x for x in signals((STEPS, 2, 2), (STEPS, 2), 2)]),
    "constant matrix": (of_scan(mgrec.maps.matrix(2)), [0.5 * x for x in signals((2, 2), (STEPS, 2), 2)]),
    "diagonal logsumexp": (
        of_scan(mgrec.maps.matrix(2, ("logsumexp", "+"), structure="diagonal")),
        signals((STEPS, 2), (STEPS, 2), 2),
    ),
    "hidden Markov model": (of_probabilities, signals(3, (3, 3), (STEPS, 3))),
    "hidden Markov model that varies": (of_probabilities, signals(3, (STEPS, 3, 3), (STEPS, 3))),
    "Kalman filter": (of_covariances, signals((STEPS, 2), (2, 3), (2, 2), (3, 3), (3, 3), 3, (3, 3))),
    "tridiagonal": (
        lambda dl, d, du, b, **options: mgrec.solve_tridiagonal(dl, 3 + d, du, b, **options),
        signals(STEPS, STEPS, STEPS, STEPS),
    ),
    "banded": (
        lambda ab, b, **options: mgrec.solve_banded((1, 1), ab.T + BANDS, b, **options),
        signals((STEPS, 3), STEPS),
    ),
    "blocks": (
        lambda dl, d, du, b, **options: mgrec.solve_block_tridiagonal(dl, 4 * EYE + d, du, b, **options),
        signals((STEPS, 2, 2), (STEPS, 2, 2), (2, 2), (STEPS, 2)),
    ),
    "lfilter": (lfilter, [np.array([0.5, 0.2, 0.1]), np.array([1.0, -0.6, 0.2]), *signals(STEPS)]),
    "lfilter with states": (
        filtered,
        [np.array([0.5, 0.2, 0.1]), np.array([2.0, -0.6, 0.2]), *signals(STEPS, 2)],
    ),
    "sosfilt": (sosfilt, [SOS, *signals(STEPS)]),
}


def gradients(function, arrays, weights, **options):
    """The gradients of a loss of the results of one rank, or of the whole axis."""
    leaves = [torch.tensor(array, requires_grad=True) for array in arrays]
    results = function(*leaves, **options)
    results = results if isinstance(results, tuple) else (results,)
    loss = (weights * results[0]).sum() + sum(result.sum() for result in results[1:])
    return [result.detach() for result in results], torch.autograd.grad(loss, leaves)


def check(function, arrays, axis=0, **options):
    """Gradients of ranks are parts of those of the whole axis; those of constants are summands."""
    shape = function(*map(torch.tensor, arrays), axis=axis, **options)
    shape = (shape[0] if isinstance(shape, tuple) else shape).shape
    weights = torch.tensor(np.random.default_rng(2).normal(size=shape))
    _, expected = gradients(function, arrays, weights, axis=axis, **options)

    def call(rank, group):
        given = {
            name: part_of(value, BOUNDS, rank) if isinstance(value, np.ndarray) else value
            for name, value in options.items()
        }
        parts = [part_of(array, BOUNDS, rank) for array in arrays]
        if not weights.ndim:  # a sum over steps, which all ranks return
            return gradients(function, parts, weights / RANKS, axis=axis, group=group, **given)
        steps_axis = weights.ndim - 1 if weights.shape[-1] == STEPS else 0
        of_part = weights.movedim(steps_axis, 0)[slice(*BOUNDS[rank : rank + 2])]
        of_part = of_part.movedim(0, steps_axis)
        return gradients(function, parts, of_part, axis=axis, group=group, **given)

    found = solve_on_ranks(RANKS, call)
    for k, (array, wanted) in enumerate(zip(arrays, expected, strict=True)):
        of_ranks = [of_rank[k] for _, of_rank in found]
        is_part = array.ndim and array.shape[0] == STEPS
        whole = torch.cat(of_ranks) if is_part else sum(of_ranks)
        np.testing.assert_allclose(whole, wanted, rtol=1e-9, atol=1e-11, err_msg=f"argument {k}")


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    check(*CASES[name])


@pytest.mark.parametrize("name", ["hidden Markov model", "Kalman filter"])
def test_gradients_of_log_likelihoods_of_segments(name):
    check(*CASES[name], reset=MARKS)


@pytest.mark.parametrize("name", ["arrays", "rows", "maximum", "rational", "matrices"])
def test_gradients_in_reverse_and_of_segments(name):
    function, arrays = CASES[name]
    check(function, arrays, reverse=True)
    if name != "rational":
        check(function, arrays, reset=MARKS)
        check(function, arrays, reset=MARKS, reverse=True)


@pytest.mark.parametrize("name", ["arrays", "maximum", "two states"])
@pytest.mark.parametrize("reverse", [False, True])
def test_the_first_step_is_not_on_the_first_rank(name, reverse, monkeypatch):
    function, arrays = CASES[name]
    monkeypatch.setattr(sys.modules[__name__], "BOUNDS", (0, 0, 13, 30, 30))
    check(function, arrays, -1, reverse=reverse)


@pytest.mark.parametrize("name", ["tridiagonal", "banded", "blocks"])
def test_gradients_of_a_periodic_system(name):
    check(*CASES[name], periodic=True)


def test_bfloat16():
    s, t = (torch.tensor(array).bfloat16() for array in signals(STEPS, STEPS))
    leaves = [x.clone().requires_grad_() for x in (s, t)]
    expected = torch.autograd.grad(mgrec.linear_recurrence(*leaves).float().sum(), leaves)

    def call(rank, group):
        parts = [part_of(x, BOUNDS, rank).clone().requires_grad_() for x in (s, t)]
        w = mgrec.linear_recurrence(*parts, group=group)
        assert w.dtype == torch.bfloat16
        return torch.autograd.grad(w.float().sum(), parts)

    found = run_on_ranks(RANKS, call)
    for k, wanted in enumerate(expected):
        whole = torch.cat([of_rank[k] for of_rank in found])
        torch.testing.assert_close(whole, wanted, rtol=2**-6, atol=2**-6)


class GroupOfGPUs(ThreadGroup):
    """A group whose first message might be one on the device."""

    is_asynchronous = True


@pytest.mark.parametrize("name", ["arrays", "lfilter"])
def test_a_call_starts_again_without_a_message_on_the_device(name):
    function, arrays = CASES[name]
    weights = torch.tensor(np.random.default_rng(2).normal(size=STEPS))
    _, expected = gradients(function, arrays, weights)

    def call(rank, group):
        parts = [part_of(array, BOUNDS, rank) for array in arrays]
        of_part = weights[slice(*BOUNDS[rank : rank + 2])]
        return [gradients(function, parts, of_part, group=group)[1] for _ in range(6)]

    results = solve_on_ranks(RANKS, call, GroupOfGPUs)
    for of_ranks in zip(*results, strict=True):
        for array, parts, wanted in zip(arrays, zip(*of_ranks, strict=True), expected, strict=True):
            whole = torch.cat(parts) if array.shape == (STEPS,) else sum(parts)
            np.testing.assert_allclose(whole, wanted, rtol=1e-9, atol=1e-11)


def second_derivative(t, group):
    w = mgrec.linear_recurrence(t, t, group=group)
    (gradient,) = torch.autograd.grad(w.sum(), t, create_graph=True)
    gradient.sum().backward()


REFUSED = {
    "second derivatives": (second_derivative, "gradients on a group have no derivatives"),
    "segments of a filter": (
        lambda t, group: lfilter([1.0], [1.0, -0.5], t, reset=t.detach() > 0, group=group).sum().backward(),
        "gradients on a group with reset",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_derivatives_that_are_refused(name):
    function, message = REFUSED[name]

    def call(rank, group):
        return function(torch.ones(4, dtype=torch.float64, requires_grad=True), group)

    for error in run_on_ranks(2, call):
        assert isinstance(error, NotImplementedError)
        assert message in str(error)
