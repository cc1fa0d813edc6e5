"""Kalman filters against statsmodels, and hidden Markov models against hmmlearn.

hmmlearn is asked for both of its implementations, in logarithms (its default) and scaled. Its
wrappers of one model fit parameters; the passes alone are compared.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mgrec import hmm, statespace

from ..harness.command import Command
from ..harness.machine import optional
from ..harness.study import Study

statsmodels = optional("statsmodels.tsa.statespace.kalman_smoother")
_hmmc, base = optional("hmmlearn._hmmc"), optional("hmmlearn.base")
STEPS, STATES = 1_000_000, 4
# How many times as fast as the peers.
WANTED_KALMAN, WANTED_HMM = 15.0, 3.0
TREND = {
    "design": np.array([[1.0, 0.0]]),
    "obs_cov": np.array([[2.0]]),
    "transition": np.array([[1.0, 1.0], [0.0, 1.0]]),
    "state_cov": np.diag([0.5, 0.01]),
}
INITIAL = {"initial_state": np.zeros(2), "initial_state_cov": 100 * np.eye(2)}
ABOUT = {"dtype": "float64", "shape": [STEPS], "steps": STEPS}


def by_statsmodels(endog: np.ndarray) -> Any:
    """A model of statsmodels, which keeps its results: every call needs one."""
    model = statsmodels.KalmanSmoother(
        k_endog=1,
        k_states=2,
        k_posdef=2,
        initialization="known",
        constant=np.zeros(2),
        stationary_cov=100 * np.eye(2),
    )
    model.bind(endog)
    for name, matrix in TREND.items():
        model[name] = matrix
    model["selection"] = np.eye(2)
    return model


def filter_states(study: Study, n: int) -> None:
    if statsmodels is None:
        study.miss("Kalman filter", "statsmodels", "not installed")
        return
    endog = np.random.default_rng(0).normal(size=(STEPS, 1)).cumsum(0)
    functions = {
        "filter": (statespace.kalman_filter, lambda model: model.filter()),
        "log-likelihood": (statespace.log_likelihood, lambda model: model.loglike()),
        "smoother": (statespace.kalman_smoother, lambda model: model.smooth()),
    }
    cases = {
        case: {
            "mgrec": partial(own, endog, **TREND, **INITIAL),
            "statsmodels": lambda peer=peer: peer(by_statsmodels(endog)),
        }
        for case, (own, peer) in functions.items()
    }
    smoothed, wanted = (call() for call in cases["smoother"].values())
    np.testing.assert_allclose(smoothed.llf, wanted.llf_obs.sum(), rtol=1e-9)
    deviations = np.sqrt(np.diagonal(smoothed.smoothed_state_cov, axis1=1, axis2=2))
    difference = abs((smoothed.smoothed_state - wanted.smoothed_state.T) / deviations).max()
    study.notes["largest difference of smoothed means, in deviations"] = float(difference)
    assert difference < 1e-8
    for case, candidates in cases.items():
        times = study.compare(case, candidates, n, **ABOUT)
        if case == "filter":
            text = "filter: statsmodels over mgrec"
            study.ratio(text, times["statsmodels"], times["mgrec"], WANTED_KALMAN)


def by_hmmlearn(model: tuple[Any, Any, Any], is_scaled: bool) -> tuple[Any, Any]:
    startprob, transmat, log_frameprob = model
    if is_scaled:
        emissions = np.exp(log_frameprob)
        log_prob, forward, scaling = _hmmc.forward_scaling(startprob, transmat, emissions)
        backward = _hmmc.backward_scaling(startprob, transmat, emissions, scaling)
        return log_prob, base._AbstractHMM._compute_posteriors_scaling(None, forward, backward)
    log_prob, forward = _hmmc.forward_log(startprob, transmat, log_frameprob)
    backward = _hmmc.backward_log(startprob, transmat, log_frameprob)
    return log_prob, base._AbstractHMM._compute_posteriors_log(None, forward, backward)


def find_states(study: Study, n: int) -> None:
    generator = np.random.default_rng(0)
    model = (
        np.full(STATES, 1 / STATES),
        generator.dirichlet(np.ones(STATES), STATES),
        np.log(generator.random((STEPS, STATES))),
    )
    if _hmmc is None:
        study.miss("forward-backward", "hmmlearn", "not installed")
        return
    candidates = {
        "mgrec": lambda: hmm.forward_backward(*model),
        "hmmlearn, logarithms": lambda: by_hmmlearn(model, False),
        "hmmlearn, scaled": lambda: by_hmmlearn(model, True),
    }
    log_prob, posteriors = candidates["mgrec"]()
    for name in list(candidates)[1:]:
        others = candidates[name]()
        np.testing.assert_allclose(log_prob, others[0], rtol=1e-9)
        np.testing.assert_allclose(posteriors, others[1], atol=1e-8)
    times = study.compare("forward-backward", candidates, n, **ABOUT)
    text = "forward-backward: hmmlearn, logarithms, over mgrec"
    study.ratio(text, times["hmmlearn, logarithms"], times["mgrec"], WANTED_HMM)
    paths = {"mgrec": lambda: hmm.viterbi(*model), "hmmlearn": lambda: _hmmc.viterbi(*model)}
    np.testing.assert_array_equal(paths["mgrec"]().states, paths["hmmlearn"]()[1])
    study.compare("best path", paths, n, **ABOUT)


PARTS = {"kalman": filter_states, "hmm": find_states}

if __name__ == "__main__":
    Command("states", __doc__, PARTS, (5, 1)).main()
