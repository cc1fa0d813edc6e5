"""Hidden Markov models against loops over the steps."""

import numpy as np
import pytest
from places import (
    all_to_host,
    as_numpy,
    assert_is_in,
    beside,
    each_memory,
    each_place,
    from_gpu,
    in_chunks,
    on_gpu,
    to_host,
)

import mgrec

pytestmark = pytest.mark.usefixtures("short_segments")


def sequences_of(steps, reset):
    starts = [0] if reset is None else sorted({0, *np.flatnonzero(reset)})
    return list(zip(starts, [*starts[1:], steps], strict=True))


def forward_backward_loop(startprob, transmat, log_frameprob, reset=None):
    """Log-likelihood and posteriors of one row, by the loops in long double."""
    steps, count = log_frameprob.shape
    matrices = np.broadcast_to(transmat, (steps, count, count)).astype(np.longdouble)
    emissions = np.exp(log_frameprob.astype(np.longdouble))
    log_prob, posteriors = np.longdouble(0), np.empty((steps, count), np.longdouble)
    for start, stop in sequences_of(steps, reset):
        forward, backward = [], [np.ones(count, np.longdouble)]
        for step in range(start, stop):
            before = startprob if step == start else forward[-1] @ matrices[step]
            weights = before * emissions[step]
            log_prob += np.log(weights.sum())
            forward.append(weights / weights.sum())
        for step in range(stop - 1, start, -1):
            later = matrices[step] @ (emissions[step] * backward[-1])
            backward.append(later / later.sum())
        both = np.array(forward) * np.array(backward[::-1])
        posteriors[start:stop] = both / both.sum(1, keepdims=True)
    return float(log_prob), posteriors.astype(float)


def viterbi_loop(startprob, transmat, log_frameprob, reset=None):
    """Log-probability and states of the best path of one row; ties go to the lowest state."""
    steps, count = log_frameprob.shape
    with np.errstate(divide="ignore"):
        matrices = np.log(np.broadcast_to(transmat, (steps, count, count)))
        starts = np.log(startprob)
    states, log_prob = np.empty(steps, int), 0.0
    for start, stop in sequences_of(steps, reset):
        score, pointers = starts + log_frameprob[start], []
        for step in range(start + 1, stop):
            paths = score[:, None] + matrices[step]
            pointers.append((paths >= paths.max(0) - 1e-11).argmax(0))
            score = paths.max(0) + log_frameprob[step]
        log_prob += score.max()
        states[stop - 1] = (score >= score.max() - 1e-11).argmax()
        for step in range(stop - 1, start, -1):
            states[step - 1] = pointers[step - 1 - start][states[step]]
    return log_prob, states


def log_sum(logs, axis):
    most = np.maximum(logs.max(axis, keepdims=True), -1e300)
    return np.log(np.exp(logs - most).sum(axis)) + most.squeeze(axis)


def loop_in_logarithms(startprob, transmat, log_frameprob):
    """Log-likelihood and posteriors of one row, by loops over logarithms."""
    with np.errstate(divide="ignore"):
        starts, matrix = np.log(startprob), np.log(transmat)
        forward, backward = [starts + log_frameprob[0]], [np.zeros(len(starts))]
        for frame in log_frameprob[1:]:
            forward.append(log_sum(forward[-1][:, None] + matrix, 0) + frame)
        for frame in log_frameprob[:0:-1]:
            backward.append(log_sum(matrix + frame + backward[-1], 1))
        both = np.array(forward) + np.array(backward[::-1])
        return log_sum(forward[-1], 0), np.exp(both - log_sum(both, 1)[:, None])


def drawn(steps, count, rows=(), seed=0, varies=False):
    generator = np.random.default_rng(seed)
    startprob = generator.dirichlet(np.ones(count), rows)
    transmat = generator.dirichlet(np.ones(count), (*rows, steps, count) if varies else count)
    log_frameprob = generator.normal(scale=3.0, size=(*rows, steps, count)) - 100.0
    return startprob, transmat, log_frameprob


RESETS = [None, np.arange(40) % 17 == 5]


@each_place
@pytest.mark.parametrize("varies", [False, True])
@pytest.mark.parametrize("reset", RESETS)
@pytest.mark.parametrize("count", [1, pytest.param(3, marks=pytest.mark.emulated), 10])
def test_passes_are_those_of_the_loop(place, varies, reset, count):
    startprob, transmat, log_frameprob = model = drawn(40, count, varies=varies)
    wanted_log_prob, wanted = forward_backward_loop(*model, reset)
    move = beside(place)
    placed = move(startprob), (place if varies else move)(transmat), place(log_frameprob)
    marks = reset if reset is None else move(reset)
    log_prob, posteriors = mgrec.hmm.forward_backward(*placed, reset=marks)
    log_prob, posteriors = assert_is_in(place, log_prob, posteriors)
    np.testing.assert_allclose(log_prob, wanted_log_prob, rtol=1e-13)
    np.testing.assert_allclose(posteriors, wanted, rtol=1e-12, atol=1e-15)
    likelihood = mgrec.hmm.log_likelihood(*placed, reset=marks)
    np.testing.assert_array_equal(to_host(likelihood), log_prob)
    log_prob, states = mgrec.hmm.viterbi(*placed, reset=marks)
    assert states.dtype == np.int32
    log_prob, states = assert_is_in(place, log_prob, states)
    wanted_log_prob, wanted = viterbi_loop(*model, reset)
    np.testing.assert_array_equal(states, wanted)
    np.testing.assert_allclose(log_prob, wanted_log_prob, rtol=1e-13)


def sample_loop(startprob, transmat, uniform, reset=None):
    states = []
    matrices = np.broadcast_to(transmat, (len(uniform), *transmat.shape[-2:]))
    for step, number in enumerate(uniform):
        is_first = step == 0 or (reset is not None and reset[step])
        sums = (startprob if is_first else matrices[step, states[-1]]).cumsum()
        states.append(min(int((sums <= number).sum()), len(sums) - 1))
    return np.array(states)


@pytest.mark.emulated
@each_place
@pytest.mark.parametrize("varies", [False, True])
@pytest.mark.parametrize("reset", RESETS)
def test_samples_are_those_of_the_loop(varies, reset, place):
    startprob, transmat, _ = drawn(40, 4, varies=varies)
    uniform = np.random.default_rng(1).random(40)
    wanted = sample_loop(startprob, transmat, uniform, reset)
    move = beside(place)
    placed = move(startprob), (place if varies else move)(transmat), place(uniform)
    states = mgrec.hmm.sample(*placed, reset=reset if reset is None else move(reset))
    (states,) = assert_is_in(place, states)
    assert states.dtype == np.int32
    np.testing.assert_array_equal(states, wanted)


@each_place
def test_rows_and_axes(place):
    startprob, transmat, log_frameprob = drawn(20, 3, rows=(2, 4))
    uniform = np.random.default_rng(1).random((20, 2, 4))
    placed = [beside(place)(array) for array in (startprob, transmat)]
    frames = place(log_frameprob.transpose(2, 0, 1, 3))
    log_prob, posteriors = all_to_host(mgrec.hmm.forward_backward(*placed, frames, axis=0))
    best, states = all_to_host(mgrec.hmm.viterbi(*placed, frames, axis=0))
    samples = to_host(mgrec.hmm.sample(*placed, place(uniform), axis=0))
    assert log_prob.shape == (2, 4)
    for row in np.ndindex(2, 4):
        model, steps = (startprob[row], transmat), (slice(None), *row)
        one = mgrec.hmm.forward_backward(*model, log_frameprob[row])
        np.testing.assert_allclose(log_prob[row], one.log_prob, rtol=1e-12)
        np.testing.assert_allclose(posteriors[steps], one.posteriors, rtol=1e-10, atol=1e-14)
        one = mgrec.hmm.viterbi(*model, log_frameprob[row])
        np.testing.assert_allclose(best[row], one.log_prob, rtol=1e-12)
        np.testing.assert_array_equal(states[steps], one.states)
        np.testing.assert_array_equal(samples[steps], mgrec.hmm.sample(*model, uniform[steps]))


@each_memory
@pytest.mark.parametrize("size", [3, 5, 8, 40])
def test_ties_go_to_the_lowest_state_in_any_chunks(size, move):
    """Two equal states: all paths between them are ties, whatever the rounding of their scores."""
    startprob, transmat = np.full(4, 0.25), np.full((4, 4), 0.1)
    transmat[:2, :2] = transmat[2:, 2:] = 0.4
    generator = np.random.default_rng(0)
    log_frameprob = np.repeat(generator.normal(scale=5.0, size=(40, 2)), 2, axis=1)
    _, wanted = viterbi_loop(startprob, transmat, log_frameprob)
    assert set(wanted) == {0, 2}
    frames = in_chunks(log_frameprob, size=size).map_blocks(move)
    _, states = mgrec.hmm.viterbi(startprob, transmat, frames)
    np.testing.assert_array_equal(to_host(states), wanted)


def test_long_sequences_do_not_underflow():
    startprob, transmat, log_frameprob = drawn(20_000, 3, seed=1)
    log_frameprob = log_frameprob - 1e4
    wanted = forward_backward_loop(startprob, transmat, log_frameprob + 1e4)
    for place in (as_numpy, lambda array: in_chunks(array, size=7000)):
        log_prob, posteriors = mgrec.hmm.forward_backward(startprob, transmat, place(log_frameprob))
        np.testing.assert_allclose(log_prob, wanted[0] - 1e4 * 20_000, rtol=1e-13)
        np.testing.assert_allclose(posteriors, wanted[1], rtol=1e-9, atol=1e-12)


@each_place
def test_offsets_of_logarithms_change_no_posterior(place):
    """States do not mix, so that columns of chunks differ in their scales."""
    transmat = np.full((4, 4), 1e-6 / 3)
    np.fill_diagonal(transmat, 1 - 1e-6)
    log_frameprob = np.random.default_rng(5).integers(-20, 1, (40, 4)) / 8
    wanted = mgrec.hmm.forward_backward(np.full(4, 0.25), transmat, log_frameprob).posteriors
    arguments = [*map(beside(place), (np.full(4, 0.25), transmat)), place(log_frameprob - 2.0**23)]
    found = mgrec.hmm.forward_backward(*arguments)
    np.testing.assert_allclose(to_host(found.posteriors), wanted, rtol=1e-12)


@pytest.mark.parametrize(("factor", "offset"), [(1e-4, 0.0), (1.0, 200.0)])
@each_place
def test_weights_that_grow_or_shrink(factor, offset, place):
    """Rows of less than 1 shrink the weights; densities of more than 1 let them grow."""
    startprob, transmat, log_frameprob = drawn(40, 3)
    transmat, log_frameprob = factor * transmat, log_frameprob + offset
    reset = np.arange(40) == 17
    wanted = forward_backward_loop(startprob, transmat, log_frameprob, reset)
    frames = place(log_frameprob)
    log_prob, posteriors = mgrec.hmm.forward_backward(startprob, transmat, frames, reset=reset)
    np.testing.assert_allclose(to_host(log_prob), wanted[0], rtol=1e-13)
    np.testing.assert_allclose(to_host(posteriors), wanted[1], rtol=1e-11, atol=1e-14)


@each_place
def test_paths_of_small_scores(place):
    """The highest score is subtracted after some 100 steps only."""
    startprob, transmat, _ = drawn(1, 4)
    log_frameprob = np.log(np.random.default_rng(1).random((300, 4)))
    wanted = viterbi_loop(startprob, transmat, log_frameprob)
    log_prob, states = mgrec.hmm.viterbi(startprob, transmat, place(log_frameprob))
    np.testing.assert_allclose(to_host(log_prob), wanted[0], rtol=1e-13)
    np.testing.assert_array_equal(to_host(states), wanted[1])


def test_paths_of_large_scores():
    """Scores grow past the digits of the frames, unless the highest one is subtracted."""
    startprob, transmat, log_frameprob = drawn(300, 4)
    log_frameprob = np.round(log_frameprob * 1024) / 1024
    wanted = mgrec.hmm.viterbi(startprob, transmat, log_frameprob).states
    found = mgrec.hmm.viterbi(startprob, transmat, log_frameprob - 2.0**40).states
    np.testing.assert_array_equal(found, wanted)


def models_that_underflow():
    """Sequences whose probabilities, divided by the largest one of a step, underflow."""
    unreachable = np.array([[-800.0, 0.0], [0.0, 0.0]])
    yield np.array([1.0, 0.0]), np.array([[0.9, 0.1], [0.0, 1.0]]), unreachable
    # The only observable state is unreachable: two others share a sum below every normal number.
    between_two = np.zeros((8, 3))
    between_two[:, :2] = -800 - np.arange(16).reshape(8, 2) % 5
    matrix = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.0, 0.0, 1.0]])
    yield np.array([0.3, 0.7, 0.0]), matrix, between_two
    # The state that is less probable for 30 steps is the more probable one in the end.
    overtaken = np.zeros((60, 2))
    overtaken[:30, 1], overtaken[30:, 0] = -40, -60
    yield np.full(2, 0.5), np.eye(2), overtaken
    moved = np.zeros((60, 3))
    moved[:30, 1:] = moved[30:, 0] = -40
    matrix = np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])
    yield np.array([0.5, 0.5, 0.0]), matrix, moved
    generator = np.random.default_rng(0)
    for seed in range(6):
        startprob, transmat, log_frameprob = drawn(50, 4, seed=seed)
        transmat[generator.random((4, 4)) < 0.5] = 0.0
        yield startprob, (transmat + 0.1 * np.eye(4)) / 1.1, 100 * (log_frameprob + 100)


@each_memory
@pytest.mark.parametrize("model", list(models_that_underflow()))
def test_possible_sequences_do_not_underflow(model, move):
    wanted, wanted_posteriors = loop_in_logarithms(*model)
    assert np.isfinite(wanted)
    startprob, transmat, log_frameprob = map(move, model)
    for size in (None, 1, 20, 60):
        frames = log_frameprob if size is None else in_chunks(model[2], size=size).map_blocks(move)
        log_prob, posteriors = all_to_host(mgrec.hmm.forward_backward(startprob, transmat, frames))
        np.testing.assert_allclose(log_prob, wanted, rtol=1e-13)
        np.testing.assert_allclose(posteriors, wanted_posteriors, rtol=1e-9, atol=1e-15)


@each_place
@pytest.mark.parametrize("name", ["startprob", "transmat", "log_frameprob"])
def test_nan_gives_a_log_prob_of_nan(place, name):
    model = dict(zip(("startprob", "transmat", "log_frameprob"), drawn(20, 3), strict=True))
    model[name].flat[-1] = np.nan
    arguments = {**model, "log_frameprob": place(model["log_frameprob"])}
    assert np.isnan(to_host(mgrec.hmm.log_likelihood(**arguments)))
    assert np.isnan(to_host(mgrec.hmm.viterbi(**arguments).log_prob))


@each_place
def test_no_state_of_probability_0_is_drawn(place):
    """Ten times 0.1 is less than 1."""
    startprob = np.array([0.1] * 10 + [0.0])
    arguments = startprob, np.tile(startprob, (11, 1)), place(np.full(3, 1 - 2.0**-53))
    np.testing.assert_array_equal(to_host(mgrec.hmm.sample(*arguments)), [9, 9, 9])


@pytest.mark.parametrize("number", [1.0, -0.5, np.nan])
def test_uniform_numbers_out_of_range_are_refused(number):
    startprob, transmat, _ = drawn(10, 3)
    uniform = np.array([0.5, 0.5, number])
    for place in (as_numpy, lambda array: in_chunks(array, size=1)):
        with pytest.raises(ValueError, match=r"uniform must be in \[0, 1\)"):
            np.asarray(mgrec.hmm.sample(startprob, transmat, place(uniform)))


def test_negative_probabilities_are_refused():
    startprob, transmat, log_frameprob = drawn(10, 3)
    for function in (mgrec.hmm.forward_backward, mgrec.hmm.log_likelihood, mgrec.hmm.viterbi):
        with pytest.raises(ValueError, match="transmat must have probabilities of at least 0"):
            function(startprob, np.log(transmat), log_frameprob)
        with pytest.raises(ValueError, match="startprob must have probabilities of at least 0"):
            function(-startprob, transmat, log_frameprob)
    lazy = in_chunks(-np.broadcast_to(transmat, (10, 3, 3)), size=5)
    with pytest.raises(ValueError, match="transmat must have probabilities of at least 0"):
        mgrec.hmm.log_likelihood(startprob, lazy, log_frameprob).compute()


@pytest.mark.gpu
@pytest.mark.parametrize("function", ["viterbi", "forward_backward"])
def test_probabilities_that_are_subnormal_in_float32(function):
    """CuPy's own casts and logarithms of float32 make them 0."""
    startprob = np.array([1.0, 0.0], np.float32)
    transmat = np.array([[1.0, 1e-40], [1e-40, 1.0]], np.float32)
    frames = np.array([[0.0, -np.inf], [-np.inf, 0.0], [-np.inf, -1.0]], np.float32)
    model = startprob, transmat, frames
    wanted = getattr(mgrec.hmm, function)(*model)
    assert np.isfinite(wanted.log_prob)
    results = getattr(mgrec.hmm, function)(*map(on_gpu, model))
    for values, others in zip(results, wanted, strict=True):
        np.testing.assert_allclose(from_gpu(values), others, rtol=1e-6)


def test_sums_of_more_than_1_are_refused():
    startprob, transmat, log_frameprob = drawn(10, 3)
    for function in (mgrec.hmm.forward_backward, mgrec.hmm.log_likelihood, mgrec.hmm.viterbi):
        with pytest.raises(ValueError, match=r"transmat\[1\] must have .* at most 1; got 1.2"):
            function(startprob, transmat * [[1.0], [1.2], [1.0]], log_frameprob)
        with pytest.raises(ValueError, match=r"startprob must have .* at most 1; got 1.0999"):
            function(1.1 * startprob, transmat, log_frameprob)
        function(1.000009 * startprob, 0.5 * transmat, log_frameprob)
    with pytest.raises(ValueError, match=r"transmat\[\d\] must have .* at most 1"):
        mgrec.hmm.sample(startprob, transmat.T, np.full(3, 0.5))
    with pytest.raises(ValueError, match=r"startprob must have .* at most 1"):
        mgrec.adjoint.hmm_log_likelihood(1.0, 1.1 * startprob, transmat, log_frameprob)
    lazy = in_chunks(1.1 * np.broadcast_to(transmat, (10, 3, 3)), size=5)
    with pytest.raises(ValueError, match=r"a chunk of transmat\[0, 0\] must have"):
        np.asarray(mgrec.hmm.log_likelihood(startprob, lazy, log_frameprob))


def test_rounding_of_bfloat16_is_no_sum_of_more_than_1():
    torch = pytest.importorskip("torch")
    startprob, transmat, _ = [torch.tensor(array).to(torch.bfloat16) for array in drawn(10, 3)]
    assert transmat.double().sum(-1).max() > 1.00005
    frames = torch.zeros(10, 3, dtype=torch.bfloat16)
    assert torch.isfinite(mgrec.hmm.log_likelihood(startprob, transmat, frames))


def test_paths_are_best_up_to_a_tie_at_each_step():
    """Differences below a tie add up: state 1 is the better one at each step."""
    log_frameprob = np.zeros((1000, 2))
    log_frameprob[:, 1] = 0.9e-10
    log_prob, _ = mgrec.hmm.viterbi([0.5, 0.5], np.full((2, 2), 0.5), log_frameprob)
    best = 1000 * (np.log(0.5) + 0.9e-10)
    assert best - 1000 * 1e-10 < log_prob < best


@each_place
def test_states_that_cannot_be_left_or_reached(place):
    """Left-to-right models have zeros; a sequence may have no path at all."""
    startprob, transmat = np.array([1.0, 0.0, 0.0]), np.triu(np.full((3, 3), 0.3))
    log_frameprob = np.random.default_rng(0).normal(size=(30, 3))
    wanted = forward_backward_loop(startprob, transmat, log_frameprob)
    log_prob, posteriors = mgrec.hmm.forward_backward(startprob, transmat, place(log_frameprob))
    np.testing.assert_allclose(to_host(posteriors), wanted[1], rtol=1e-12, atol=1e-300)
    reset = np.arange(30) == 20
    log_frameprob[10] = -np.inf
    log_prob, posteriors = map(
        to_host, mgrec.hmm.forward_backward(startprob, transmat, place(log_frameprob), reset=reset)
    )
    assert log_prob == -np.inf
    wanted = forward_backward_loop(startprob, transmat, log_frameprob[20:])
    np.testing.assert_allclose(posteriors[20:], wanted[1], rtol=1e-12)
    assert np.isnan(posteriors[:20]).all()


def test_dtypes():
    arguments = [array.astype(np.float32) for array in drawn(20, 3)]
    for place in (as_numpy, in_chunks):
        log_prob, posteriors = mgrec.hmm.forward_backward(*arguments[:2], place(arguments[2]))
        assert (log_prob.dtype, posteriors.dtype) == (np.float64, np.float32)
        wanted = forward_backward_loop(*(array.astype(float) for array in arguments))
        np.testing.assert_allclose(posteriors, wanted[1], rtol=1e-6)
        np.testing.assert_allclose(log_prob, wanted[0], rtol=1e-12)


def test_a_sequence_without_steps_has_a_log_prob_of_0():
    for shape in ((0, 3), (2, 0, 3), (0, 5, 3)):
        log_prob, _ = mgrec.hmm.forward_backward(np.ones(3) / 3, np.eye(3), np.zeros(shape))
        np.testing.assert_array_equal(log_prob, np.zeros(shape[:-2]))


def test_wrong_arguments_are_refused():
    startprob, transmat, log_frameprob = drawn(10, 3)

    def refuses(error, message, **changes):
        arguments = {"startprob": startprob, "transmat": transmat, "log_frameprob": log_frameprob}
        for function in (mgrec.hmm.forward_backward, mgrec.hmm.viterbi, mgrec.hmm.log_likelihood):
            with pytest.raises(error, match=message):
                function(**{**arguments, **changes})

    refuses(ValueError, r"startprob must have shape \(..., 3\)", startprob=np.ones(2))
    refuses(ValueError, r"transmat must have shape \(..., 3, 3\)", transmat=np.ones((2, 2)))
    refuses(ValueError, "log_frameprob must have shape", log_frameprob=np.ones(3))
    refuses(ValueError, "1 to 128 states; got 200", log_frameprob=np.ones((4, 200)))
    refuses(ValueError, "must broadcast", transmat=np.ones((4, 3, 3)))
    refuses(ValueError, "startprob must have leading axes", startprob=np.ones((2, 3)))
    refuses(TypeError, "transmat must be real", transmat=transmat + 0j)
    refuses(ValueError, "axis must be", axis=2)
    refuses(ValueError, "reset must have shape", reset=np.zeros(4, bool))
    refuses(ValueError, "memory must be", memory="none")
    with pytest.raises(ValueError, match="uniform must have an axis of steps"):
        mgrec.hmm.sample(startprob, transmat, 0.5)
    with pytest.raises(ValueError, match=r"transmat must have shape \(..., states, states\)"):
        mgrec.hmm.sample(startprob, 1.0, [0.5])


def test_arrays_of_other_libraries():
    pandas, xarray = pytest.importorskip("pandas"), pytest.importorskip("xarray")
    startprob, transmat, log_frameprob = drawn(10, 3)
    index = pandas.date_range("2024-01-01", periods=10)
    frame = pandas.DataFrame(log_frameprob, index=index, columns=["low", "mid", "high"])
    _, posteriors = mgrec.hmm.forward_backward(startprob, transmat, frame)
    assert posteriors.index.equals(index)
    assert list(posteriors.columns) == ["low", "mid", "high"]
    assert isinstance(mgrec.hmm.log_likelihood(startprob, transmat, frame), float)
    strict = pytest.importorskip("array_api_strict")
    found = mgrec.hmm.log_likelihood(startprob, transmat, strict.asarray(log_frameprob))
    assert isinstance(found, type(strict.asarray(0.0)))
    path = mgrec.hmm.viterbi(startprob, transmat, log_frameprob)
    found = mgrec.hmm.viterbi(pandas.Series(startprob), pandas.DataFrame(transmat), frame)
    pandas.testing.assert_series_equal(found.states, pandas.Series(path.states, index))
    data = xarray.DataArray(log_frameprob, {"day": index, "state": [*frame]}, ("day", "state"))
    found = mgrec.hmm.viterbi(startprob, transmat, data)
    assert (found.states.dims, found.states.name) == (("day",), "states")
    np.testing.assert_array_equal(found.states, path.states)
    _, posteriors = mgrec.hmm.forward_backward(startprob, transmat, data.chunk(day=4))
    assert posteriors.dims == ("day", "state")
    assert posteriors.chunks == ((4, 4, 2), (3,))
    assert list(posteriors.state) == [*frame]


def test_gradients_of_data_have_its_labels():
    pandas, xarray = pytest.importorskip("pandas"), pytest.importorskip("xarray")
    startprob, transmat, log_frameprob = drawn(3, 3)
    *wanted, of_data = mgrec.adjoint.hmm_log_likelihood(1.0, startprob, transmat, log_frameprob)
    frame = pandas.DataFrame(log_frameprob, range(1, 4), ["low", "mid", "high"])
    data = xarray.DataArray(frame, dims=("day", "state"))
    for labelled in (frame, data):
        *found, gradient = mgrec.adjoint.hmm_log_likelihood(1.0, startprob, transmat, labelled)
        for array, like in zip(found, wanted, strict=True):
            assert type(array) is np.ndarray
            np.testing.assert_array_equal(array, like)
        assert gradient.equals(0 * labelled + of_data)
    options = {"dim": "day", "of": ["log_frameprob"]}
    gradients = mgrec.adjoint.hmm_log_likelihood(1.0, startprob, transmat, data, **options)
    assert gradients[:2] == (None, None)


def test_samples_of_tables_run_along_the_index():
    pandas, xarray = pytest.importorskip("pandas"), pytest.importorskip("xarray")
    startprob, transmat, _ = drawn(10, 3)
    uniform = np.random.default_rng(0).random((40, 2))
    transmat = transmat / transmat.sum(-1, keepdims=True)
    wanted = mgrec.hmm.sample(startprob, transmat, uniform, axis=0)
    frame = pandas.DataFrame(uniform, range(1, 41), ["a", "b"])
    found = mgrec.hmm.sample(startprob, transmat, frame)
    pandas.testing.assert_frame_equal(found, pandas.DataFrame(wanted, frame.index, frame.columns))
    data = xarray.DataArray(uniform, dims=("day", "place"))
    np.testing.assert_array_equal(mgrec.hmm.sample(startprob, transmat, data, dim="day"), wanted)


def test_the_loop_of_these_tests_can_fail():
    startprob, transmat, log_frameprob = drawn(20, 3)
    wanted = forward_backward_loop(startprob, transmat, log_frameprob)
    log_prob = mgrec.hmm.log_likelihood(startprob, transmat * 0.999, log_frameprob)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(log_prob, wanted[0], rtol=1e-13)
