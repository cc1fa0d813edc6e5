"""Observations whose variance is singular, against exact rational numbers."""

import math
from fractions import Fraction

import dask.array as da
import numpy as np
import pytest
from places import MEMORIES, all_to_host

import mgrec

exact = np.vectorize(Fraction, otypes=[object])


def conditioned(model):
    """Results of filter and smoother: the joint distribution given one observation after another.

    An entry without variance says nothing.
    """
    y, design, transition = model["endog"], model["design"], exact(model["transition"])
    (steps, p), n = y.shape, len(transition)
    mean, cov = exact(np.zeros(steps * (n + p))), exact(np.zeros([steps * (n + p)] * 2))
    mean[:n], cov[:n, :n] = exact(model["initial_state"]), exact(model["initial_state_cov"])
    for step in range(1, steps):
        earlier, now = slice(step * n - n, step * n), slice(step * n, step * n + n)
        mean[now] = transition @ mean[earlier]
        cov[now, : step * n] = transition @ cov[earlier, : step * n]
        cov[: step * n, now] = cov[now, : step * n].T
        cov[now, now] = cov[now, earlier] @ transition.T + exact(model["state_cov"])
    states, entries = slice(0, steps * n), slice(steps * n, None)
    observe = exact(np.kron(np.eye(steps), design))
    mean[entries], cov[entries, states] = observe @ mean[states], observe @ cov[states, states]
    cov[states, entries] = cov[entries, states].T
    noise = exact(np.kron(np.eye(steps), model["obs_cov"]))
    cov[entries, entries] = cov[entries, states] @ observe.T + noise
    llf, filtered = np.zeros(steps), []
    for step in range(steps):
        for k in range(steps * n + step * p, steps * n + step * p + p):
            value, variance = y.flat[k - steps * n], cov[k, k]
            if np.isnan(value) or variance == 0:
                continue
            difference, column = Fraction(value) - mean[k], cov[:, k].copy()
            square = float(difference**2 / variance)
            llf[step] -= (math.log(2 * math.pi) + math.log(variance) + square) / 2
            mean = mean + column * (difference / variance)
            cov = cov - np.outer(column, column) / variance
        now = slice(step * n, step * n + n)
        filtered.append((mean[now], cov[now, now]))
    smoothed = [(mean[k : k + n], cov[k : k + n, k : k + n]) for k in range(0, steps * n, n)]
    columns = [zip(*pairs, strict=True) for pairs in (filtered, smoothed)]
    return [llf, *(np.array(list(part), float) for pair in columns for part in pair)]


def model_of(endog, design, obs_cov, transition, state_cov, initial_state_cov):
    n = len(transition)
    return {
        "endog": np.array(endog, float),
        "design": np.array(design, float),
        "obs_cov": np.array(obs_cov, float),
        "transition": np.array(transition, float),
        "state_cov": np.array(state_cov, float),
        "initial_state": np.zeros(n),
        "initial_state_cov": np.array(initial_state_cov, float),
    }


def rotated(state_cov):
    """Two states that exchange places, of which the sum is observed without noise."""
    endog = [[1.0], [1.0], [np.nan], [1.0], [1.0]]
    return model_of(
        endog, [[1.0, 1.0]], [[0.0]], [[0.0, 1.0], [1.0, 0.0]], state_cov, [[2.0, 0.5], [0.5, 1.0]]
    )


ONE, NO, TWICE = [[1.0]], [[0.0]], [[1.0], [1.0]]
MODELS = {
    "a constant": model_of([[2.0]] * 4, ONE, NO, ONE, NO, [[3.0]]),
    "a level known from the start": model_of([[0.0]] * 4, ONE, NO, ONE, NO, NO),
    "the same sensor twice": model_of(
        [[2.0, 2.0], [1.0, 1.0], [np.nan, 0.3], [1.5, 1.5]], [[0.3], [0.3]], np.zeros((2, 2)), ONE, ONE, ONE
    ),
    "the same sensor twice, of common noise": model_of(
        [[2.0, 2.0], [1.0, 1.0], [0.5, np.nan], [1.5, 1.5]], TWICE, np.ones((2, 2)), ONE, ONE, ONE
    ),
    "an exact sensor and another one": model_of(
        [[2.0, 2.5], [2.0, 1.5], [2.0, np.nan]], TWICE, np.diag([0.0, 1.0]), ONE, NO, ONE
    ),
    "a sum of states": rotated(np.zeros((2, 2))),
    "a sum of states with noise": rotated(np.diag([0.0, 0.25])),
    "all states after two steps": model_of(
        [[1.0], [2.0], [2.0], [3.0], [5.0]],
        [[1.0, 0.0]],
        NO,
        [[1.0, 1.0], [0.0, 1.0]],
        np.zeros((2, 2)),
        np.eye(2),
    ),
}


def results(model, place, chunk, square_root):
    """llf_obs, and means and covariances of filtered and smoothed states."""
    model = {name: place(array) for name, array in model.items()}
    if chunk is not None:
        model["endog"] = da.from_array(model["endog"], chunks=(chunk, -1))
    filtered = mgrec.statespace.kalman_filter(**model, square_root=square_root)
    smoothed = mgrec.statespace.kalman_smoother(**model, square_root=square_root)
    llf = mgrec.statespace.log_likelihood(**model, square_root=square_root)
    return all_to_host([*filtered[:4], *smoothed[1:], llf, smoothed[0]])


@pytest.mark.parametrize("square_root", [False, True])
@pytest.mark.parametrize("chunk", [None, 1, 2])
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.emulated] * (name == "a sum of states")) for name in MODELS],
)
@pytest.mark.parametrize("place", MEMORIES)
def test_an_entry_without_variance_counts_as_missing(place, name, chunk, square_root):
    wanted = conditioned(MODELS[name])
    llf, *values, second_llf, third_llf = results(MODELS[name], place, chunk, square_root)
    for value, other in zip(values, wanted, strict=True):
        np.testing.assert_allclose(value, other, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose([llf, second_llf, third_llf], [wanted[0].sum()] * 3, rtol=1e-11)


@pytest.mark.parametrize("square_root", [False, True])
def test_a_contradiction_is_left_out(square_root):
    """The second sensor is left out, even if it shows something else."""
    model = MODELS["the same sensor twice"]
    other = {**model, "endog": model["endog"] + [0.0, 5.0]}
    other["endog"][2] = model["endog"][2]
    wanted, values = (results(each, np.asarray, None, square_root) for each in (model, other))
    for value, expected in zip(values, wanted, strict=True):
        np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize("name", ["the same sensor twice", "an exact sensor and another one"])
def test_gradients_are_those_without_the_entry(name):
    model, step = MODELS[name], 1e-6
    names = [*model]
    grads = dict(zip(names, mgrec.adjoint.statespace_log_likelihood(1.0, **model), strict=False))
    for changed in ("transition", "initial_state_cov", "endog", "initial_state"):
        llf = [
            mgrec.statespace.log_likelihood(**{**model, changed: model[changed] + sign * step})
            for sign in (1, -1)
        ]
        total = np.nansum(grads[changed])
        np.testing.assert_allclose(total, (llf[0] - llf[1]) / (2 * step), rtol=1e-7, atol=1e-8)
    missing = np.isnan(model["endog"])
    assert (grads["endog"][missing] == 0).all()


def test_these_oracles_can_fail():
    wrong = {**MODELS["a sum of states"], "obs_cov": np.full((1, 1), 1e-6)}
    llf = results(wrong, np.asarray, None, True)[0]
    assert abs(llf - conditioned(MODELS["a sum of states"])[0].sum()) > 1e-3
