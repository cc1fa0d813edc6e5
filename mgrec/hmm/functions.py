"""The public functions of hidden Markov models."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..core.arrays.elements import Part
from ..distributed.groups.calls import CALL
from ..solve import StepLabels, function_of_model, solve, solve_parts
from .arguments import (
    MarkovModel,
    backward_problem,
    check_chain,
    check_model,
    draw_problem,
    follow_problem,
    forward_problem,
    posterior_problem,
)
from .cuda import phases
from .recurrence import ForwardBackward, ViterbiPath

_MODEL = "startprob", "transmat"
_OF_ROWS: tuple[str, ...] = ()
_LOG_LIKELIHOOD = StepLabels(_MODEL, (_OF_ROWS,))
_FORWARD_BACKWARD = StepLabels(_MODEL, (_OF_ROWS, ("steps", "entries")))
_VITERBI = StepLabels(_MODEL, (_OF_ROWS, ("steps",)))
_STATES_OF_CHAIN = StepLabels(_MODEL, (("steps",),), vectors=0)


@partial(function_of_model, check=check_model, labelled=_LOG_LIKELIHOOD, takes_group=True)
def log_likelihood(model: MarkovModel) -> Any:
    """Return the log-likelihood of observations under a hidden Markov model.

    Parameters
    ----------
    startprob, transmat, log_frameprob, axis, reset, lengths, memory
        See :func:`mgrec.hmm.forward_backward`.
    group : mgrec.collective.Group, optional
        Processes that each have a part of the steps. See :ref:`guide-ranks`.

    Returns
    -------
    float64, array or dask.array.Array
        Logarithm of the probability of all observations of each row; that of a sequence without
        a possible path is -inf.

    Raises
    ------
    TypeError, ValueError
        As for :func:`mgrec.hmm.forward_backward`.

    Examples
    --------
    A fair and a loaded coin, exchanged one time in ten, and four throws of heads:

    >>> import numpy as np, mgrec
    >>> transmat = np.array([[0.9, 0.1], [0.1, 0.9]])
    >>> heads = np.log([0.5, 0.8])
    >>> log_prob = mgrec.hmm.log_likelihood([0.5, 0.5], transmat, np.tile(heads, (4, 1)))
    >>> round(float(log_prob), 4)
    -1.5201
    """
    if model.is_in_gpu_memory:
        return phases.forward_backward(model, has_posteriors=False).log_prob
    (log_prob,) = solve_parts(forward_problem(model), _log_prob(model))
    return log_prob


@partial(function_of_model, check=check_model, labelled=_FORWARD_BACKWARD, takes_group=True)
def forward_backward(model: MarkovModel) -> ForwardBackward[Any]:
    """Return the probabilities of the states of a hidden Markov model, given all observations.

    Names and order of the arguments are those of hmmlearn.

    Parameters
    ----------
    startprob : array_like (..., states)
        Probability of each state at the first step of a sequence.
    transmat : array_like (..., states, states)
        Probability of each transition: ``transmat[i, j]`` from state i to state j. An array
        (..., steps, states, states) has those from the step before to each step; the first is not
        used. Rows may sum to less than 1: the rest is the probability that the sequence ends.
    log_frameprob : array_like (..., steps, states)
        Logarithm of the probability, or of the density, of each observation in each state. At most
        128 states. A missing observation has 0 in each state. Results of a DataFrame or a DataArray
        keep its labels: see :ref:`guide-step-labels`.
    axis : int, optional
        Axis of the steps among the axes before that of the states. The default is the last.
    reset : array_like, optional
        Marks of bool at the first step of each further sequence, or labels that change there: see
        :ref:`guide-reset`.
    lengths : array_like of int, optional
        Lengths of the sequences, as in hmmlearn, in place of `reset`.
    memory : {"stream", "two-pass"}, optional
        See :func:`mgrec.linear_recurrence`.
    group : mgrec.collective.Group, optional
        Processes that each have a part of the steps. See :ref:`guide-ranks`.

    Returns
    -------
    ForwardBackward
        The tuple (log_prob, posteriors). ``log_prob`` is the logarithm of the probability of all
        observations of each row, in float64. ``posteriors`` has the shape (..., steps, states), and
        is float32 if all arguments are, or float64. It is nan in a sequence without a possible
        path.

    Raises
    ------
    TypeError
        If an argument is not real, or `reset` is of another dtype.
    ValueError
        If shapes do not match, `axis` is out of range, or there are too many states. If a
        probability in host memory is negative, or those of a row have a sum of more than 1, by more
        than 1e-5 (2⁻⁸ in narrower dtypes); those of a chunk raise when the chunk is computed.

    Notes
    -----
    *Accuracy.* Weights of states are scaled to a sum of 1 at each step. A weight below 1e-290 is
    kept as its logarithm, so that no possible sequence underflows. All is computed in float64. A
    chunk of a Dask array contributes a matrix, whose columns have scales of their own: posteriors
    then differ from those of one chunk by roundings of the logarithms of these scales, which is
    1e-12 after 400 steps in which the states hardly mix.

    *nan* in an argument gives nan. It does not mark a missing observation.

    *Cost.* One pass over the steps in each direction. A step with weights below 1e-290 takes up to
    5 times as long. A chunk's matrix takes as many passes as there are states, and all matrices of
    a row are computed before any of its posteriors. A GPU solves
    segments of at least 32 steps side by side; a segment with weights below 1e-290 is solved again
    in logarithms. A chunk of a Dask array of CuPy arrays is solved in the same way.

    Examples
    --------
    A fair and a loaded coin, exchanged one time in ten. After four heads the coin is probably the
    loaded one:

    >>> import numpy as np, mgrec
    >>> transmat = np.array([[0.9, 0.1], [0.1, 0.9]])
    >>> heads = np.log([0.5, 0.8])
    >>> log_prob, posteriors = mgrec.hmm.forward_backward(
    ...     [0.5, 0.5], transmat, np.tile(heads, (4, 1))
    ... )
    >>> posteriors.round(3)
    array([[0.208, 0.792],
           [0.182, 0.818],
           [0.182, 0.818],
           [0.208, 0.792]])
    """
    if model.is_in_gpu_memory:
        return phases.forward_backward(model)
    problem = posterior_problem(model)
    if problem.is_lazy or CALL.get() is not None:
        posteriors = Part((model.count,), dtype=model.dtype)
        return ForwardBackward(*solve_parts(problem, _log_prob(model), posteriors))
    log_prob, filtered = solve_parts(forward_problem(model), _log_prob(model), Part())
    return ForwardBackward(log_prob, solve(backward_problem(model, filtered)))


@partial(function_of_model, check=check_model, labelled=_VITERBI, takes_group=True)
def viterbi(model: MarkovModel) -> ViterbiPath[Any]:
    """Return the most probable sequence of states of a hidden Markov model.

    Parameters
    ----------
    startprob, transmat, log_frameprob, axis, reset, lengths, memory
        See :func:`mgrec.hmm.forward_backward`.
    group : mgrec.collective.Group, optional
        Processes that each have a part of the steps. See :ref:`guide-ranks`.

    Returns
    -------
    ViterbiPath
        The tuple (log_prob, states). ``log_prob`` is the logarithm of the probability of the
        observations and the states of each row, in float64. ``states`` has the shape (..., steps)
        and the dtype int32.

    Raises
    ------
    TypeError, ValueError
        As for :func:`mgrec.hmm.forward_backward`.

    Notes
    -----
    *Ties* go to the lowest state. Scores (logarithms) of paths that differ by less than 1e-10 at a
    step are ties: the rounding of scores depends on the chunks, and the path does not. Such
    differences add up: ``log_prob`` may be below that of the best path by 1e-10 for each step.

    *nan* in an argument gives a ``log_prob`` of nan, and states of no meaning.

    *Cost.* One pass over the steps in each direction, with one byte for each step and state in
    between.

    Examples
    --------
    Two regimes of weather, and five days of which the third and the fourth are wet:

    >>> import numpy as np, mgrec
    >>> transmat = np.array([[0.8, 0.2], [0.4, 0.6]])
    >>> dry, wet = np.log([0.9, 0.2]), np.log([0.1, 0.8])
    >>> log_prob, states = mgrec.hmm.viterbi(
    ...     [0.5, 0.5], transmat, np.array([dry, dry, wet, wet, dry])
    ... )
    >>> states
    array([0, 0, 1, 1, 0], dtype=int32)
    """
    in_logarithms = model.in_logarithms()
    if model.is_in_gpu_memory:
        return phases.viterbi(in_logarithms)
    pointers = solve(forward_problem(in_logarithms, "score"))
    log_probs = Part((), 1, sum_axis=model.axis)
    states = Part((), dtype=np.dtype(np.int32))
    return ViterbiPath(*solve_parts(follow_problem(in_logarithms, pointers), log_probs, states))


@partial(function_of_model, check=check_chain, labelled=_STATES_OF_CHAIN)
def sample(model: MarkovModel) -> Any:
    """Return a random sequence of states of a Markov chain, from uniform random numbers.

    Parameters
    ----------
    startprob, transmat, axis, reset, lengths, memory
        See :func:`mgrec.hmm.forward_backward`. Here the probabilities of the next states must sum
        to 1: they are not scaled.
    uniform : array_like (..., steps)
        Independent random numbers in [0, 1), as ``numpy.random.Generator.random`` draws them. The
        state at a step is the first one whose probability, added to those of all lower states,
        exceeds the number. Where rounding leaves no such state, it is the last one of positive
        probability.

    Returns
    -------
    array or dask.array.Array
        States (..., steps) of dtype int32, the same in any chunks.

    Raises
    ------
    TypeError, ValueError
        As for :func:`mgrec.hmm.forward_backward`, and ValueError for `uniform` in host memory that
        is out of range.

    Examples
    --------
    Observations of a chain of two states, with their own means:

    >>> import numpy as np, mgrec
    >>> generator = np.random.default_rng(0)
    >>> transmat = np.array([[0.9, 0.1], [0.2, 0.8]])
    >>> states = mgrec.hmm.sample([0.5, 0.5], transmat, generator.random(8))
    >>> states
    array([1, 1, 0, 0, 0, 1, 1, 1], dtype=int32)
    >>> observations = generator.normal(np.array([-1.0, 2.0])[states], 0.5)
    """
    if model.is_in_gpu_memory:
        return phases.sample(model)
    (states,) = solve_parts(draw_problem(model), Part(()))
    return states


def _log_prob(model: MarkovModel) -> Part:
    """Return the part of the numbers of the pass "forward" whose sum is the log-likelihood."""
    return Part((), model.count, sum_axis=model.axis)
