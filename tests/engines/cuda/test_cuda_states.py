"""Kernels of hidden states, run on this machine, against the results of NumPy arrays."""

from __future__ import annotations

from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended
from cuda_on_host import DeviceArray
from distributed import Client

import mgrec
import mgrec.dask
from mgrec import adjoint, hmm, statespace
from mgrec.scans.matrix.cuda import segments

pytestmark = pytest.mark.usefixtures("on_host")
extended = pytest.mark.extended
STEPS = 40
MARKS = np.arange(STEPS) % 17 == 5


@pytest.fixture(params=with_extended([1, 7, STEPS], 1, STEPS), autouse=True)
def shortest(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of so many steps, in groups of 4."""
    monkeypatch.setattr(segments, "_SHORTEST", request.param)
    monkeypatch.setattr(segments, "GROUP", 4)


def placed(array: Any) -> Any:
    return None if array is None else np.array(array).view(DeviceArray)


def in_chunks(array: Any, sizes: Any, axis: int = 0) -> Any:
    """A Dask array of arrays of a device."""
    chunks = tuple(sizes if k == axis else (n,) for k, n in enumerate(array.shape))
    meta = placed(np.empty((0,) * array.ndim, array.dtype))
    return da.from_array(array, chunks=chunks).map_blocks(placed, meta=meta)


def computed(result: Any) -> Any:
    """The array in host memory: Dask would join chunks of a device by NumPy."""
    assert result.ndim == 0 or isinstance(result._meta, DeviceArray)
    meta = np.empty((0,) * result.ndim, result.dtype)
    return result.map_blocks(np.array, meta=meta, dtype=result.dtype).compute(scheduler="sync")


CHUNKS = [(1, 0, 4, 28, 7), (0, 25, 15)]


def state_space(n: int, p: int, varies: bool, rows: Any = ()) -> dict[str, Any]:
    """A stable model with missing observations."""
    generator = np.random.default_rng(n + p)
    steps = (*rows, STEPS) if varies else ()

    def covariance(size: int) -> Any:
        root = generator.normal(size=(*steps, size, size))
        return root @ root.swapaxes(-1, -2) + 0.1 * np.eye(size)

    endog = generator.normal(size=(*rows, STEPS, p))
    endog[generator.random(endog.shape) < 0.1] = np.nan
    return {
        "endog": endog,
        "design": generator.normal(size=(*steps, p, n)),
        "obs_cov": covariance(p),
        "transition": generator.normal(scale=0.4, size=(*steps, n, n)),
        "state_cov": covariance(n),
        "state_intercept": generator.normal(size=n),
        "initial_state": generator.normal(size=(*rows, n)),
        "initial_state_cov": np.eye(n),
    }


@pytest.mark.parametrize("reset", [None, MARKS])
@pytest.mark.parametrize(
    ("n", "p", "varies"),
    [(2, 1, False), *[pytest.param(*sizes, marks=extended) for sizes in
     [(3, 2, True), (1, 1, False), (2, 4, True), (5, 2, False)]]],
)  # fmt: skip
def test_state_spaces(n: int, p: int, varies: bool, reset: Any) -> None:
    model = state_space(n, p, varies)
    arrays = {name: placed(array) for name, array in model.items()}
    for function in (statespace.kalman_filter, statespace.kalman_smoother):
        wanted = function(**model, reset=reset)
        results = function(**arrays, reset=placed(reset))
        for result, exact in zip(results, wanted, strict=True):
            np.testing.assert_allclose(result, exact, rtol=1e-10, atol=1e-12)
    llf = statespace.log_likelihood(**arrays, reset=placed(reset))
    np.testing.assert_allclose(llf, wanted.llf, rtol=1e-12)


@pytest.mark.parametrize("name", ["obs_cov", "state_cov", "initial_state_cov"])
def test_the_symmetric_part_of_covariances_counts(name: str) -> None:
    model = state_space(3, 2, False)
    wanted = statespace.log_likelihood(**model)
    model[name] = model[name] + np.triu(model[name], 1) - np.tril(model[name], -1)
    llf = statespace.log_likelihood(**{key: placed(array) for key, array in model.items()})
    np.testing.assert_allclose(llf, wanted, rtol=1e-12)


def check_square_roots(model: dict[str, Any], arrays: dict[str, Any], reset: Any) -> None:
    """Compare with the plain form, whose NumPy kernels other tests compile."""
    functions = (statespace.kalman_filter, statespace.kalman_smoother, statespace.log_likelihood)
    for function in functions:
        wanted = function(**model, reset=reset)
        results = function(**arrays, reset=placed(reset), square_root=True)
        if function is statespace.log_likelihood:
            wanted, results = (wanted,), (results,)
        for result, exact in zip(results, wanted, strict=True):
            result = computed(result) if isinstance(result, da.Array) else result
            np.testing.assert_allclose(result, exact, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("reset", [MARKS, pytest.param(None, marks=extended)])
@pytest.mark.parametrize(
    ("n", "p", "varies"),
    [(2, 1, False), *[pytest.param(*sizes, marks=extended) for sizes in
     [(1, 1, False), (3, 2, True), (2, 5, True), (5, 2, False)]]],
)  # fmt: skip
def test_square_roots(n: int, p: int, varies: bool, reset: Any) -> None:
    """Also of noise that not all states have: roots of covariances are singular."""
    model = {**state_space(n, p, varies), "selection": np.eye(n, 1)}
    model["state_cov"] = model["state_cov"][..., :1, :1]
    check_square_roots(model, {name: placed(array) for name, array in model.items()}, reset)


@extended
@pytest.mark.parametrize("reset", [None, MARKS])
@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("varies", [False, True])
def test_square_roots_in_chunks(chunks: Any, varies: bool, reset: Any) -> None:
    model = state_space(2, 1, varies)
    arrays = {name: placed(array) for name, array in model.items()}
    lazy = [name for name in model if name == "endog" or (varies and model[name].ndim == 3)]
    arrays |= {name: in_chunks(model[name], chunks) for name in lazy}
    check_square_roots(model, arrays, reset)


@extended
def test_square_roots_of_a_diffuse_start() -> None:
    """Plain covariances lose all digits, between segments as within them."""
    n = 3
    model = {
        "endog": np.cumsum(np.random.default_rng(0).normal(size=(STEPS, 1)), axis=0),
        "design": np.eye(1, n), "obs_cov": np.eye(1), "transition": np.eye(n) + np.eye(n, k=1),
        "state_cov": 0.01 * np.eye(n), "initial_state": np.zeros(n),
        "initial_state_cov": 1e12 * np.eye(n),
    }  # fmt: skip
    arrays = {name: placed(array) for name, array in model.items()}
    _, states, covariances = statespace.kalman_smoother(**model, square_root=True)
    deviations = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    for square_root, is_close in ((True, True), (False, False)):
        results = statespace.kalman_smoother(**arrays, square_root=square_root)
        errors = abs(results.smoothed_state - states) / deviations
        assert (errors.max() < 1e-5) == is_close


@extended
@pytest.mark.parametrize("chunks", [None, *CHUNKS])
def test_square_roots_of_singular_covariances(chunks: Any) -> None:
    """The second state is a third of the first one, so that rounding rotates columns of roots."""
    loads, one = np.array([[1.0, 0.0], [1 / 3, 0.0], [0.7, 1.0]]), np.eye(1)
    model = {
        "endog": np.random.default_rng(0).normal(size=(STEPS, 1)), "design": np.ones((1, 3)),
        "obs_cov": one, "transition": np.diag([0.9, 0.9, 0.8]), "state_cov": np.eye(2),
        "selection": loads, "initial_state": np.zeros(3), "initial_state_cov": loads @ loads.T,
    }  # fmt: skip
    model["transition"][2, :2] = 0.3
    arrays = {name: placed(array) for name, array in model.items()}
    if chunks is not None:
        arrays["endog"] = in_chunks(model["endog"], chunks)
    check_square_roots(model, arrays, None)


def test_state_spaces_of_rows_in_float32() -> None:
    model = state_space(2, 1, False, rows=(3,))
    wanted = statespace.kalman_filter(**model)
    model = {name: np.float32(array) for name, array in model.items()}
    model["endog"] = model["endog"].transpose(1, 0, 2)
    arrays = {name: placed(array) for name, array in model.items()}
    results = statespace.kalman_filter(**arrays, axis=0)
    np.testing.assert_allclose(results.llf, wanted.llf, rtol=1e-6)
    for result, exact in zip(results[2:], wanted[2:], strict=True):
        assert result.dtype == np.float32
        np.testing.assert_allclose(np.moveaxis(result, 0, 1), exact, rtol=1e-4, atol=1e-5)


def test_a_steady_state_ends_with_a_missing_observation() -> None:
    one = np.ones((1, 1))
    endog = np.random.default_rng(0).normal(size=(400, 1))
    endog[[200, 201, 350]] = np.nan
    model = {
        "endog": endog, "design": one, "obs_cov": one, "transition": 0.9 * one, "state_cov": one,
        "initial_state": np.zeros(1), "initial_state_cov": one,
    }  # fmt: skip
    wanted = statespace.kalman_filter(**model)
    results = statespace.kalman_filter(**{name: placed(array) for name, array in model.items()})
    for result, exact in zip(results, wanted, strict=True):
        np.testing.assert_allclose(result, exact, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("reset", [None, 333])
@pytest.mark.parametrize("factor", [1.05, 1.5, 3.0, [[3.0, 1.0], [0.0, 0.9]]])
def test_unstable_states_without_noise(factor: Any, reset: int | None) -> None:
    """Maps of segments, or of groups of them, lose digits: states grow to 3^400 in them."""
    transition = np.atleast_2d(factor)
    n = len(transition)
    model = {
        "endog": np.random.default_rng(0).normal(size=(800, 1)), "design": np.eye(1, n),
        "obs_cov": np.eye(1), "transition": transition, "state_cov": np.zeros((n, n)),
        "initial_state": np.zeros(n), "initial_state_cov": np.eye(n),
        "reset": None if reset is None else np.arange(800) == reset,
    }  # fmt: skip
    wanted = statespace.kalman_filter(**model)
    results = statespace.kalman_filter(**{name: placed(array) for name, array in model.items()})
    np.testing.assert_allclose(results.llf, wanted.llf, rtol=1e-10)
    deviations = np.sqrt(np.diagonal(wanted.filtered_state_cov, axis1=1, axis2=2))
    errors = abs(results.filtered_state - wanted.filtered_state) / deviations
    assert errors.max() < 1e-7
    smoothed = statespace.kalman_smoother(**{name: placed(array) for name, array in model.items()})
    exact = statespace.kalman_smoother(**model).smoothed_state
    assert (abs(smoothed.smoothed_state - exact) / deviations).max() < 1e-7


@pytest.mark.parametrize("square_root", [False, pytest.param(True, marks=extended)])
def test_exact_observations(square_root: bool) -> None:
    """The second entry observes the sum of states that the first one observes, without noise.

    The states exchange places without noise, so that all of them are known after two steps.
    """
    endog = np.ones((STEPS, 2))
    endog[3] = endog[5, 0] = np.nan
    endog[8:] = [2.0, 2.5]
    for state_cov in (np.zeros((2, 2)), np.diag([0.0, 1.0])):
        model = {
            "endog": endog, "design": np.array([[1.0, 2.0], [1.0, 2.0]]),
            "obs_cov": np.diag([0.0, 0.5]), "transition": np.array([[0.0, 1.0], [1.0, 0.0]]),
            "state_cov": state_cov, "initial_state": np.zeros(2), "initial_state_cov": np.eye(2),
        }  # fmt: skip
        arrays = {name: placed(array) for name, array in model.items()}
        for function in (statespace.kalman_filter, statespace.kalman_smoother):
            wanted = function(**model, square_root=square_root)
            results = function(**arrays, square_root=square_root)
            assert np.isfinite(wanted.llf)
            for result, other in zip(results, wanted, strict=True):
                np.testing.assert_allclose(result, other, rtol=1e-9, atol=1e-12)


def test_no_rows() -> None:
    model = state_space(2, 1, False, rows=(0,))
    smoothed = statespace.kalman_smoother(**{name: placed(array) for name, array in model.items()})
    assert smoothed.smoothed_state_cov.shape == (0, STEPS, 2, 2)


def markov(count: int, varies: bool = False) -> tuple[Any, Any, Any]:
    generator = np.random.default_rng(count)
    return (
        generator.dirichlet(np.ones(count)),
        generator.dirichlet(np.ones(count), (STEPS, count) if varies else count),
        generator.normal(scale=3.0, size=(STEPS, count)) - 100.0,
    )


def check_markov(model: tuple[Any, Any, Any], reset: Any = None) -> None:
    wanted = hmm.forward_backward(*model, reset=reset)
    results = hmm.forward_backward(*map(placed, model), reset=placed(reset))
    np.testing.assert_allclose(results.log_prob, wanted.log_prob, rtol=1e-13)
    np.testing.assert_allclose(results.posteriors, wanted.posteriors, rtol=1e-9, atol=1e-15)
    log_prob = hmm.log_likelihood(*map(placed, model), reset=placed(reset))
    np.testing.assert_allclose(log_prob, wanted.log_prob, rtol=1e-13)


@pytest.mark.parametrize("reset", [None, MARKS])
@pytest.mark.parametrize(
    ("count", "varies"),
    [(3, False), pytest.param(3, True, marks=extended), pytest.param(1, False, marks=extended),
     pytest.param(10, True, marks=extended)],
)  # fmt: skip
def test_markov_models(count: int, varies: bool, reset: Any) -> None:
    model = markov(count, varies)
    check_markov(model, reset)
    wanted = hmm.viterbi(*model, reset=reset)
    results = hmm.viterbi(*map(placed, model), reset=placed(reset))
    np.testing.assert_array_equal(results.states, wanted.states)
    np.testing.assert_allclose(results.log_prob, wanted.log_prob, rtol=1e-13)
    chain = (*model[:2], np.random.default_rng(0).random(STEPS))
    states = hmm.sample(*map(placed, chain), reset=placed(reset))
    np.testing.assert_array_equal(states, hmm.sample(*chain, reset=reset))


def test_impossible_sequences() -> None:
    model = markov(3)
    model[2][10] = -np.inf
    check_markov(model, MARKS)
    model[2][10, 1] = np.nan
    assert np.isnan(hmm.log_likelihood(*map(placed, model), reset=placed(MARKS)))
    assert np.isnan(hmm.viterbi(*map(placed, model)).log_prob)


def test_possible_sequences_do_not_underflow() -> None:
    unreachable = np.array([[-800.0, 0.0, 0.0], [0.0, 0.0, -800.0]])
    check_markov((np.eye(3)[0], np.triu(np.full((3, 3), 0.3)), unreachable))
    # The state that is less probable for 20 steps is the more probable one in the end.
    overtaken = np.full((STEPS, 3), -60.0)
    overtaken[:20, 0], overtaken[20:, 1] = 0, 0
    check_markov((np.full(3, 1 / 3), np.eye(3), overtaken))
    model = markov(3)
    check_markov((model[0], model[1], 100 * (model[2] + 100)), MARKS)


def test_no_state_of_probability_0_is_drawn() -> None:
    """Ten times 0.1 is less than 1."""
    startprob = np.array([0.1] * 10 + [0.0])
    model = startprob, np.tile(startprob, (11, 1)), np.full(3, 1 - 2.0**-53)
    np.testing.assert_array_equal(hmm.sample(*map(placed, model)), [9, 9, 9])


def test_ties_go_to_the_lowest_state() -> None:
    startprob, transmat = np.full(4, 0.25), np.full((4, 4), 0.1)
    transmat[:2, :2] = transmat[2:, 2:] = 0.4
    frames = np.repeat(np.random.default_rng(0).normal(scale=5.0, size=(STEPS, 2)), 2, axis=1)
    model = startprob, transmat, frames
    states = hmm.viterbi(*map(placed, model)).states
    assert set(np.asarray(states)) == {0, 2}
    np.testing.assert_array_equal(states, hmm.viterbi(*model).states)


@pytest.mark.parametrize(
    ("n", "algebra", "structure"),
    [
        (5, ("+", "*"), "general"),
        pytest.param(3, ("max", "+"), "general", marks=extended),
        pytest.param(5, ("logsumexp", "+"), "general", marks=extended),
        (5, ("logsumexp", "+"), "diagonal"), pytest.param(4, ("+", "*"), "general", marks=extended),
        pytest.param(4, ("min", "+"), "general", marks=extended),
        pytest.param(3, ("+", "*"), "companion", marks=extended),
        pytest.param(4, ("+", "*"), "block-diagonal", marks=extended),
        pytest.param(6, ("max", "+"), "companion", marks=extended),
    ],
)  # fmt: skip
def test_matrix_maps(n: int, algebra: Any, structure: str) -> None:
    generator = np.random.default_rng(0)
    block = 2 if structure == "block-diagonal" else None
    matrix_map = mgrec.maps.matrix(n, algebra, structure, block)
    matrices = generator.normal(size=(2, STEPS, *matrix_map.matrix_shape))
    operands = matrices, generator.normal(size=(2, STEPS, n)), generator.normal(size=(2, n))
    for reverse in (False, True):
        for reset in (None, MARKS):
            options = {"reverse": reverse, "axis": 1}
            wanted = mgrec.scan(
                matrix_map, *operands[:2], initial=operands[2], reset=reset, **options
            )
            matrices, vectors, initial = map(placed, operands)
            states = mgrec.scan(
                matrix_map, matrices, vectors, initial=initial, reset=placed(reset), **options
            )
            np.testing.assert_allclose(states, wanted, rtol=1e-12, atol=1e-12)


def test_nan_stays_in_its_segment() -> None:
    matrices, vectors = np.zeros((STEPS, 5, 5)), np.zeros((STEPS, 5))
    vectors[3] = matrices[2] = np.nan
    M, b, initial, reset = map(placed, (matrices, vectors, np.zeros(5), MARKS))
    states = np.asarray(mgrec.scan(mgrec.maps.matrix(5), M, b, initial=initial, reset=reset))
    assert not np.isnan(states[[0, 1, *range(5, STEPS)]]).any() and np.isnan(states[2:4]).all()


def test_products_of_matrices_neither_overflow_nor_vanish() -> None:
    """The product of 7 matrices overflows, and the states that it leads to do not."""
    matrices = np.array([1e60, 1e-60])[np.arange(STEPS) // 7 % 2, None, None] * np.eye(5)
    operands = matrices + np.roll(matrices, 1, axis=-1), np.zeros(5)
    matrix_map, initial = mgrec.maps.matrix(5), np.full(5, 1e-302)
    states = mgrec.scan(matrix_map, *map(placed, operands), initial=placed(initial))
    wanted = mgrec.scan(matrix_map, *operands, initial=initial)
    assert np.isfinite(wanted).all()
    np.testing.assert_allclose(states, wanted, rtol=1e-13)


@pytest.mark.parametrize("reset", [None, MARKS])
def test_gradients_of_hidden_states(reset: Any) -> None:
    """Some weights are tiny, and some states are not possible."""
    generator = np.random.default_rng(0)
    matrix = generator.random((3, 3))
    matrix[0, 2] = matrix[2, 0] = 0.0
    matrix /= matrix.sum(1, keepdims=True)
    frames = generator.normal(size=(2, STEPS, 3))
    frames[0, 20] = [-800.0, -700.0, 0.0]
    arrays = (np.array([0.5, 0.5, 0.0]), matrix, frames)
    grad = np.array([2.0, -1.0])
    wanted = adjoint.hmm_log_likelihood(grad, *arrays, reset=reset)
    found = adjoint.hmm_log_likelihood(placed(grad), *map(placed, arrays), reset=placed(reset))
    for own, exact in zip(found, wanted, strict=True):
        np.testing.assert_allclose(own, exact, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("reset", [None, MARKS])
@pytest.mark.parametrize(("n", "p", "varies"), [(2, 1, False), (3, 2, True)])
def test_gradients_of_state_spaces(n: int, p: int, varies: bool, reset: Any) -> None:
    model = state_space(n, p, varies)
    wanted = adjoint.statespace_log_likelihood(2.0, **model, reset=reset)
    arrays = {name: placed(array) for name, array in model.items()}
    found = adjoint.statespace_log_likelihood(2.0, **arrays, reset=placed(reset))
    for own, exact in zip(found, wanted, strict=True):
        assert (own is None) == (exact is None)
        if exact is not None:
            np.testing.assert_allclose(own, exact, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("reset", [None, MARKS])
@pytest.mark.parametrize("chunks", [CHUNKS[0], pytest.param(CHUNKS[1], marks=extended)])
@pytest.mark.parametrize("varies", [False, pytest.param(True, marks=extended)])
def test_state_spaces_in_chunks(chunks: Any, varies: bool, reset: Any) -> None:
    model = state_space(2, 1, varies)
    arrays = {name: placed(array) for name, array in model.items()}
    lazy = [name for name in model if name == "endog" or (varies and model[name].ndim == 3)]
    arrays |= {name: in_chunks(model[name], chunks) for name in lazy}
    for function in (statespace.kalman_filter, statespace.kalman_smoother):
        wanted = function(**model, reset=reset)
        results = function(**arrays, reset=placed(reset))
        for result, exact in zip(results, wanted, strict=True):
            np.testing.assert_allclose(computed(result), exact, rtol=1e-9, atol=1e-11)
    llf = statespace.log_likelihood(**arrays, reset=placed(reset))
    np.testing.assert_allclose(computed(llf), wanted.llf, rtol=1e-11)


@extended
@pytest.mark.parametrize("square_root", [False, True])
@pytest.mark.parametrize("solved", [statespace.kalman_filter, statespace.kalman_smoother])
def test_plans_of_chunks(solved: Any, square_root: bool) -> None:
    model = state_space(2, 1, False)
    arrays = {name: placed(array) for name, array in model.items() if name != "endog"}
    function = partial(solved, square_root=square_root)
    endog, wanted = in_chunks(model["endog"], CHUNKS[0]), function(**model)
    with Client(
        processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as client:
        mgrec.dask.warm_up(function, endog, client=client, **arrays)
        with mgrec.plan(function, endog, client=client, **arrays) as plan:
            graph = function(endog, **arrays)
            for result, other, exact in zip(plan(), graph, wanted, strict=True):
                values = result.map_blocks(np.array, meta=np.empty((0,) * result.ndim)).compute()
                np.testing.assert_allclose(values, exact, rtol=1e-9, atol=1e-11)
                np.testing.assert_array_equal(values, computed(other))


@pytest.mark.parametrize("shortest", [7], indirect=True)
def test_plans_summarise_a_chunk_once(on_host: Any) -> None:
    """Graphs do so twice, if it has several segments, and have the same bits."""
    model = markov(3, False)
    arrays = [*map(placed, model[:2]), in_chunks(model[2], (25, 15))]
    options = {"processes": False, "n_workers": 2, "threads_per_worker": 1}
    with (
        Client(**options, dashboard_address=None) as client,
        mgrec.plan(hmm.forward_backward, *arrays, client=client) as plan,
    ):
        on_host.launches.clear()
        results = plan()
        names = [name for name, *_ in on_host.launches]
        assert names.count("summarise_kernel") == names.count("determine_kernel") == 2
        for result, other in zip(results, hmm.forward_backward(*arrays), strict=True):
            values = result.map_blocks(np.array, meta=np.empty((0,) * result.ndim)).compute()
            np.testing.assert_array_equal(values, computed(other))


@pytest.mark.parametrize("reset", [None, MARKS])
@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("varies", [False, pytest.param(True, marks=extended)])
def test_markov_models_in_chunks(chunks: Any, varies: bool, reset: Any) -> None:
    model = markov(3, varies)
    arrays = [*map(placed, model[:2]), in_chunks(model[2], chunks)]
    wanted = hmm.forward_backward(*model, reset=reset)
    results = hmm.forward_backward(*arrays, reset=placed(reset))
    np.testing.assert_allclose(computed(results.log_prob), wanted.log_prob, rtol=1e-12)
    np.testing.assert_allclose(computed(results.posteriors), wanted.posteriors, rtol=1e-9)
    path, exact = hmm.viterbi(*arrays, reset=placed(reset)), hmm.viterbi(*model, reset=reset)
    np.testing.assert_array_equal(computed(path.states), exact.states)
    np.testing.assert_allclose(computed(path.log_prob), exact.log_prob, rtol=1e-12)
    uniform = np.random.default_rng(0).random(STEPS)
    states = hmm.sample(*arrays[:2], in_chunks(uniform, chunks), reset=placed(reset))
    exact = hmm.sample(*model[:2], uniform, reset=reset)
    np.testing.assert_array_equal(computed(states), exact)


@pytest.mark.parametrize("reset", [None, MARKS])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("n", "algebra"),
    [(5, ("+", "*")), pytest.param(5, ("logsumexp", "+"), marks=extended),
     pytest.param(6, ("max", "+"), marks=extended)],
)  # fmt: skip
def test_matrix_maps_in_chunks(n: int, algebra: Any, reverse: bool, reset: Any) -> None:
    generator, matrix_map = np.random.default_rng(0), mgrec.maps.matrix(n, algebra)
    matrices, vectors = (
        generator.normal(size=(2, STEPS, n, n)),
        generator.normal(size=(2, STEPS, n)),
    )
    initial, options = generator.normal(size=n), {"axis": 1, "reverse": reverse}
    wanted = mgrec.scan(matrix_map, matrices, vectors, initial=initial, reset=reset, **options)
    states = mgrec.scan(
        matrix_map, in_chunks(matrices, CHUNKS[0], 1), in_chunks(vectors, CHUNKS[0], 1),
        initial=placed(initial), reset=placed(reset), **options,
    )  # fmt: skip
    np.testing.assert_allclose(computed(states), wanted, rtol=1e-11, atol=1e-11)
