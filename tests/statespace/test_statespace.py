"""State space models against loops over the steps, in long double."""

from functools import partial

import dask.array as da
import numpy as np
import pytest
from internals import compile_for_sizes
from places import (
    MEMORIES,
    all_to_host,
    as_numpy,
    assert_is_in,
    beside,
    chunks_on_gpu,
    each_memory,
    each_place,
    from_gpu,
    in_chunks,
    on_gpu,
    to_host,
)

import mgrec
import mgrec.dask

MATRICES = "design obs_cov transition state_cov selection obs_intercept state_intercept".split()


def inverse(matrix):
    """Gauss and Jordan: NumPy has no inverse of long doubles."""
    size = len(matrix)
    both = np.concatenate([matrix, np.eye(size)], axis=1).astype(np.longdouble)
    for k in range(size):
        pivot = k + abs(both[k:, k]).argmax()
        both[[k, pivot]] = both[[pivot, k]]
        both[k] /= both[k, k]
        others = np.arange(size) != k
        both[others] -= np.outer(both[others, k], both[k])
    return both[:, size:]


def determinant(matrix):
    lower = np.zeros_like(matrix)
    for k in range(len(matrix)):
        for j in range(k + 1):
            rest = matrix[k, j] - lower[k, :j] @ lower[j, :j]
            lower[k, j] = np.sqrt(rest) if k == j else rest / lower[j, j]
    return np.prod(np.diag(lower)) ** 2


def loop(model, reset=None, smooths=True):
    """Filtered and smoothed states of one row, by the filter and the smoother of Rauch et al."""
    wide = {name: np.asarray(value, np.longdouble) for name, value in model.items()}
    y = wide["endog"]
    steps = len(y)

    def at(name, step, ndim):
        return wide[name][step] if wide[name].ndim > ndim else wide[name]

    llf, predicted, filtered, starts = [], [], [], []
    for step in range(steps):
        Z, H, T, Q, R = (at(name, step, 2) for name in MATRICES[:5])
        d, c = (at(name, step, 1) for name in MATRICES[5:])
        starts.append(step == 0 or (reset is not None and bool(reset[step])))
        if starts[-1]:
            a, P = wide["initial_state"], wide["initial_state_cov"]
        predicted.append((a, P))
        observed = ~np.isnan(y[step])
        Z, v = Z[observed], (y[step] - d)[observed]
        if observed.any():
            F = Z @ P @ Z.T + H[np.ix_(observed, observed)]
            v, K = v - Z @ a, P @ Z.T @ inverse(F)
            a, P = a + K @ v, P - K @ Z @ P
            square = v @ inverse(F) @ v
            llf.append(-(len(v) * np.log(2 * np.pi) + np.log(determinant(F)) + square) / 2)
        else:
            llf.append(0.0)
        filtered.append((a, P))
        a, P = T @ a + c, T @ P @ T.T + R @ Q @ R.T
    smoothed = [filtered[-1]]
    for step in range(steps - 2, -1, -1):
        a, P = filtered[step]
        if smooths and not starts[step + 1]:
            T = at("transition", step, 2)
            (later, later_cov), (mean, cov) = smoothed[-1], predicted[step + 1]
            G = P @ T.T @ inverse(cov)
            a, P = a + G @ (later - mean), P + G @ (later_cov - cov) @ G.T
        smoothed.append((a, P))
    columns = [zip(*pairs, strict=True) for pairs in (filtered, predicted, smoothed[::-1])]
    return [np.array(values, float) for values in (llf, *(list(part) for pair in columns for part in pair))]


def drawn(steps=40, n=3, p=2, rows=(), seed=0, varies=False, gaps=True):
    generator = np.random.default_rng(seed)
    leading = (*rows, steps) if varies else ()

    def covariance(size, leading=()):
        root = generator.normal(size=(*leading, size, size))
        return root @ root.swapaxes(-1, -2) + 0.1 * np.eye(size)

    endog = generator.normal(scale=2.0, size=(*rows, steps, p))
    if gaps:
        endog[..., 5:8, :] = np.nan
        endog[..., steps // 2, 0] = np.nan
    return {
        "endog": endog,
        "design": generator.normal(size=(*leading, p, n)),
        "obs_cov": covariance(p, leading),
        "transition": 0.5 * generator.normal(size=(*leading, n, n)) / np.sqrt(n),
        "state_cov": covariance(2, leading),
        "selection": generator.normal(size=(*leading, n, 2)),
        "obs_intercept": generator.normal(size=(*leading, p)),
        "state_intercept": generator.normal(size=(*leading, n)),
        "initial_state": generator.normal(size=(*rows, n)),
        "initial_state_cov": covariance(n, rows),
    }


def placed(model, place, varies):
    lazy = {"endog", "design", "transition"} if varies else {"endog"}
    move = beside(place)
    return {name: place(array) if name in lazy else move(array) for name, array in model.items()}


def assert_equal_to_the_loop(filtered, smoothed, wanted, rtol=1e-10):
    found, *others = all_to_host([*filtered, *smoothed[1:]])
    np.testing.assert_allclose(found, wanted[0].sum(), rtol=rtol / 100)
    for values, exact in zip(others, wanted, strict=True):
        np.testing.assert_allclose(values, exact, rtol=rtol, atol=rtol / 10)


GPU = pytest.mark.gpu
RESETS = [None, np.arange(40) % 17 == 5]


@pytest.mark.usefixtures("short_segments")
@each_place
@pytest.mark.parametrize("varies", [False, True])
@pytest.mark.parametrize("reset", RESETS)
@pytest.mark.parametrize(("n", "p"), [(1, 1), pytest.param(3, 2, marks=pytest.mark.emulated), (2, 4), (5, 2)])
def test_states_are_those_of_the_loop(place, varies, reset, n, p):
    model = drawn(n=n, p=p, varies=varies)
    arguments = placed(model, place, varies)
    marks = reset if reset is None else beside(place)(reset)
    filtered = mgrec.statespace.kalman_filter(**arguments, reset=marks)
    smoothed = mgrec.statespace.kalman_smoother(**arguments, reset=marks)
    results = assert_is_in(place, *filtered, *smoothed)
    rtol = 1e-10 if place in (as_numpy, in_chunks) else 1e-9
    assert_equal_to_the_loop(results[: len(filtered)], results[len(filtered) :], loop(model, reset), rtol)
    llf = mgrec.statespace.log_likelihood(**arguments, reset=marks)
    np.testing.assert_allclose(to_host(llf), results[0], rtol=1e-14)


@pytest.mark.gpu
@pytest.mark.parametrize("square_root", [False, True])
@pytest.mark.parametrize("solve", [mgrec.statespace.kalman_filter, mgrec.statespace.kalman_smoother])
def test_plans_of_cupy_arrays(solve, square_root):
    from distributed import Client

    model, solve = drawn(), partial(solve, square_root=square_root)
    arrays = {name: on_gpu(array) for name, array in model.items()}
    endog = chunks_on_gpu(model["endog"])
    others = {name: array for name, array in arrays.items() if name != "endog"}
    wanted, graph = solve(**model), solve(endog, **others)
    with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        mgrec.dask.warm_up(solve, endog, client=client, **others)
        with mgrec.plan(solve, endog, client=client, **others) as plan:
            for _ in range(2):
                for value, like, other in zip(plan(endog), graph, wanted, strict=True):
                    value = from_gpu(value.compute())
                    np.testing.assert_allclose(value, other, rtol=1e-9, atol=1e-10)
                    np.testing.assert_array_equal(value, to_host(like))


def local_linear_trend(steps, seed=0):
    """A level with a slope: the states converge to a steady state."""
    generator = np.random.default_rng(seed)
    return {
        "endog": generator.normal(size=(steps, 1)).cumsum(0),
        "design": np.array([[1.0, 0.0]]),
        "obs_cov": np.array([[2.0]]),
        "transition": np.array([[1.0, 1.0], [0.0, 1.0]]),
        "state_cov": np.diag([0.5, 0.01]),
        "selection": np.eye(2),
        "obs_intercept": np.zeros(1),
        "state_intercept": np.zeros(2),
        "initial_state": np.zeros(2),
        "initial_state_cov": 1e6 * np.eye(2),
    }


@each_memory
@pytest.mark.parametrize("size", [5, 40, 500])
def test_steady_states_and_diffuse_starts(size, move):
    model = local_linear_trend(500)
    model["endog"][300] = np.nan
    llf, mean, covariance, *_, smoothed, smoothed_cov = loop(model)
    arguments = placed(model, lambda array: in_chunks(array, size=size).map_blocks(move), False)
    filtered = mgrec.statespace.kalman_filter(**arguments)
    np.testing.assert_allclose(to_host(filtered.llf), llf.sum(), rtol=1e-11)
    deviation = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    assert (abs(to_host(filtered.filtered_state) - mean) < 1e-8 * deviation).all()
    np.testing.assert_allclose(to_host(filtered.filtered_state_cov)[2:], covariance[2:], rtol=1e-8)
    result = mgrec.statespace.kalman_smoother(**arguments)
    deviation = np.sqrt(np.diagonal(smoothed_cov, axis1=1, axis2=2))
    assert (abs(to_host(result.smoothed_state) - smoothed) < 1e-8 * deviation)[2:].all()


@pytest.mark.parametrize("compiles_sizes", [False, pytest.param(True, marks=pytest.mark.extended)])
def test_steady_states_end_at_gaps_and_marks(monkeypatch, compiles_sizes):
    if compiles_sizes:
        compile_for_sizes(monkeypatch, 1)
    for n, p in [(2, 1), (3, 2)] if compiles_sizes else [(3, 2)]:
        model = drawn(300, n=n, p=p)
        generator = np.random.default_rng(1)
        # Intercepts may vary in a steady state.
        model["obs_intercept"] = generator.normal(size=(300, p))
        model["state_intercept"] = generator.normal(size=(300, n))
        model["endog"][150, p - 1] = model["endog"][280] = np.nan
        reset = np.isin(np.arange(300), [80, 81, 210, 299])
        filtered = mgrec.statespace.kalman_filter(**model, reset=reset)
        covariances = filtered.filtered_state_cov
        assert (covariances[148] == covariances[149]).all()
        assert (covariances[149] != covariances[150]).any()
        smoothed = mgrec.statespace.kalman_smoother(**model, reset=reset)
        assert_equal_to_the_loop(filtered, smoothed, loop(model, reset))
        # Sequences that start in the steady state.
        model["initial_state_cov"] = filtered.predicted_state_cov[149]
        filtered = mgrec.statespace.kalman_filter(**model, reset=reset)
        smoothed = mgrec.statespace.kalman_smoother(**model, reset=reset)
        assert_equal_to_the_loop(filtered, smoothed, loop(model, reset))


@pytest.mark.parametrize("square_root", [False, True])
def test_matrices_that_vary_end_no_steady_state(square_root):
    """The covariances are constant, and signs of the design change."""
    model = plain(80, state_cov=np.eye(1))
    signs = np.where(np.random.default_rng(1).random((80, 1, 1)) < 0.5, 1.0, -1.0)
    every = {name: np.ones((80, 1, 1)) for name in ("obs_cov", "transition")}
    turned = {**model, **every, "design": signs, "endog": signs[:, 0] * model["endog"]}
    wanted, found = (
        mgrec.statespace.kalman_smoother(**arguments, square_root=square_root)
        for arguments in (model, turned)
    )
    np.testing.assert_allclose(found.smoothed_state, wanted.smoothed_state, rtol=1e-12)


def test_models_without_noise_of_observations():
    """An autoregression of order 2, whose state holds two observations."""
    model = local_linear_trend(60)
    model.update(
        obs_cov=np.zeros((1, 1)),
        transition=np.array([[0.5, 1.0], [0.3, 0.0]]),
        state_cov=np.array([[1.0]]),
        selection=np.array([[1.0], [0.4]]),
        initial_state_cov=2.0 * np.eye(2),
    )
    wanted = loop(model, smooths=False)
    for place in (as_numpy, in_chunks):
        filtered = mgrec.statespace.kalman_filter(**placed(model, place, False))
        np.testing.assert_allclose(filtered.llf_obs, wanted[0], rtol=1e-10)
        np.testing.assert_allclose(filtered.filtered_state, wanted[1], rtol=1e-10, atol=1e-11)


def test_chunks_of_unknown_sizes():
    model = drawn(40, n=2)
    is_kept = np.arange(40) % 4 != 1
    arguments = {**model, "endog": in_chunks(model["endog"])[in_chunks(is_kept)]}
    wanted = {**model, "endog": model["endog"][is_kept]}
    for function in (mgrec.statespace.kalman_filter, mgrec.statespace.kalman_smoother):
        for values, others in zip(function(**arguments), function(**wanted), strict=True):
            np.testing.assert_allclose(values.compute(), others, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("size", [1, 3, 4])
def test_exact_observations_of_states_without_noise(size):
    """After one observation, an earlier state leaves the others of a chunk without variance."""
    model = plain(4, obs_cov=np.zeros((1, 1)), initial_state=np.zeros(4))
    model.update(transition=np.eye(4), state_cov=np.zeros((4, 4)), initial_state_cov=np.eye(4))
    model["design"] = np.random.default_rng(0).normal(size=(4, 1, 4))
    wanted = mgrec.statespace.kalman_filter(**model)
    assert np.isfinite(wanted.llf)
    filtered = mgrec.statespace.kalman_filter(
        **placed(model, lambda array: in_chunks(array, size=size), False)
    )
    np.testing.assert_allclose(filtered.llf, wanted.llf, rtol=1e-9)
    np.testing.assert_allclose(filtered.filtered_state, wanted.filtered_state, rtol=1e-9)


def test_negative_variances_give_nan_and_no_error():
    model = local_linear_trend(30)
    model.update(obs_cov=np.full((1, 1), -1.0), state_cov=np.zeros((2, 2)))
    for place in (as_numpy, in_chunks):
        llf = mgrec.statespace.log_likelihood(**placed(model, place, False))
        assert np.isnan(np.asarray(llf))


def plain(steps=300, scale=1.0, **changes):
    """A level that moves at random, observed with noise, in units of size `scale`."""
    generator = np.random.default_rng(0)
    square = np.full((1, 1), scale**2)
    return {
        "endog": scale * generator.normal(size=(steps, 1)).cumsum(0),
        "design": np.eye(1),
        "obs_cov": square,
        "transition": np.eye(1),
        "state_cov": 1e-4 * square,
        "initial_state": np.zeros(1),
        "initial_state_cov": square,
        **changes,
    }


def blocks(first, second):
    """Return the model of two independent ones."""
    joined = {"endog": np.concatenate([first["endog"], second["endog"]], axis=1)}
    for name in ("design", "obs_cov", "transition", "state_cov", "initial_state_cov"):
        (p, n), shape = first[name].shape, second[name].shape
        joined[name] = np.zeros((p + shape[0], n + shape[1]))
        joined[name][:p, :n], joined[name][p:, n:] = first[name], second[name]
    return {**joined, "initial_state": np.zeros(joined["transition"].shape[0])}


@pytest.mark.parametrize("place", [as_numpy, lambda array: in_chunks(array, size=50)])
def test_no_state_is_kept_before_it_is_steady(place):
    """States of other scales: the covariance of the large one changes by roundings only."""
    alone = plain()
    wanted = mgrec.statespace.kalman_filter(**placed(alone, place, False))
    large = plain(scale=1e6, state_cov=np.full((1, 1), 1e12))
    both = mgrec.statespace.kalman_filter(**placed(blocks(large, alone), place, False))
    large_llf = mgrec.statespace.log_likelihood(**large)
    np.testing.assert_allclose(both.llf, wanted.llf + large_llf, rtol=1e-12)
    np.testing.assert_allclose(both.filtered_state[:, 1], wanted.filtered_state[:, 0], rtol=1e-10)
    np.testing.assert_allclose(
        both.filtered_state_cov[:, 1, 1], wanted.filtered_state_cov[:, 0, 0], rtol=1e-12
    )
    # A constant that is not observed has a large variance.
    idle = {**alone, "transition": np.eye(2), "initial_state": np.zeros(2)}
    idle["design"], idle["state_cov"] = np.array([[0.0, 1.0]]), np.diag([0.0, 1e-4])
    idle["initial_state_cov"] = np.diag([1e12, 1.0])
    llf = mgrec.statespace.log_likelihood(**placed(idle, place, False))
    np.testing.assert_allclose(llf, wanted.llf, rtol=1e-12)
    smoothed = mgrec.statespace.kalman_smoother(**placed(idle, place, False))
    wanted = mgrec.statespace.kalman_smoother(**placed(alone, place, False))
    np.testing.assert_allclose(
        smoothed.smoothed_state_cov[:, 1, 1], wanted.smoothed_state_cov[:, 0, 0], rtol=1e-11
    )


def test_unstable_states_leave_a_variance_of_0():
    """The variance grows from 1e-18 to that of a steady state."""
    model = plain(transition=np.full((1, 1), 1.5), initial_state_cov=np.zeros((1, 1)))
    model["state_cov"] = np.full((1, 1), 1e-18)
    both = blocks(plain(), model)
    both["design"], both["obs_cov"] = np.array([[0.0, 1.0]]), np.eye(1)
    both["state_cov"][0, 0] = 0.0
    both["endog"] = both["endog"][:, :1]
    arguments = {name: both[name] for name in both}
    extra = {"selection": np.eye(2), "obs_intercept": np.zeros(1), "state_intercept": np.zeros(2)}
    filtered = mgrec.statespace.kalman_filter(**arguments)
    wanted = loop({**both, **extra}, smooths=False)
    np.testing.assert_allclose(filtered.filtered_state_cov, wanted[2], rtol=1e-8, atol=1e-20)


@pytest.mark.parametrize("place", [as_numpy, in_chunks])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_state_cov_that_is_not_finite_gives_nan(place, value):
    model = plain(50, state_cov=np.full((1, 1), value))
    assert np.isnan(np.asarray(mgrec.statespace.log_likelihood(**placed(model, place, False))))


@pytest.mark.parametrize("step", [19, 20, 29])
def test_states_after_an_infinite_observation_are_those_of_the_loop_in_chunks(step):
    for seed in range(4):
        generator = np.random.default_rng(seed)
        transition, endog = generator.uniform(-0.6, 0.6, (2, 2)), generator.normal(size=(60, 1))
        endog[step], endog[25] = np.inf, np.nan
        system = np.array([[1.0, 0.5]]), np.eye(1), transition, np.eye(2)
        initial = {"initial_state": np.zeros(2), "initial_state_cov": np.eye(2)}
        wanted = mgrec.statespace.kalman_filter(endog, *system, **initial)
        for sizes in ((20, 10, 30), (20, 1, 39)):
            lazy = da.from_array(endog, chunks=(sizes, 1))
            results = mgrec.statespace.kalman_filter(lazy, *system, **initial)
            for result, exact in zip(results, wanted, strict=True):
                np.testing.assert_allclose(result, exact, rtol=1e-9, atol=1e-12)


@each_memory
@pytest.mark.parametrize("reset", [None, pytest.param(np.arange(800) == 333, marks=pytest.mark.extended)])
@pytest.mark.parametrize("size", [50, 90, 400, pytest.param(800, marks=GPU)])
@pytest.mark.parametrize("factor", [1.05, 1.5, 3.0, [[3.0, 1.0], [0.0, 0.9]]])
def test_unstable_states_without_noise_in_chunks(factor, size, reset, move):
    """In a chunk the state for a given first one grows to more than float64 holds."""
    transition = np.atleast_2d(factor)
    n = len(transition)
    model = plain(800, transition=transition, state_cov=np.zeros((n, n)), design=np.eye(1, n))
    model.update(initial_state=np.zeros(n), initial_state_cov=np.eye(n))
    model["endog"] = np.random.default_rng(0).normal(size=(800, 1))
    wanted = mgrec.statespace.kalman_filter(**model, reset=reset)
    assert np.isfinite(wanted.llf)
    chunked = placed(model, lambda array: in_chunks(array, size=size).map_blocks(move), False)
    filtered = mgrec.statespace.kalman_filter(**chunked, reset=reset)
    np.testing.assert_allclose(to_host(filtered.llf), wanted.llf, rtol=1e-11)
    found, wanted = to_host(filtered.filtered_state), wanted.filtered_state
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9)
    found, wanted = (
        to_host(mgrec.statespace.kalman_smoother(**arrays, reset=reset).smoothed_state)
        for arrays in (chunked, model)
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9)


def test_sums_of_states_that_grow_in_chunks():
    """The map of a chunk has the eigenvalue 1000, and no entry above 63."""
    mean = np.full((16, 16), 1 / 16)
    model = plain(70, design=np.ones((1, 16)), transition=1.64 * mean + 0.5 * (np.eye(16) - mean))
    model.update(state_cov=np.zeros((16, 16)), initial_state_cov=np.eye(16))
    model.update(endog=np.random.default_rng(0).normal(size=(70, 1)), initial_state=np.zeros(16))
    llf = mgrec.statespace.log_likelihood(**placed(model, lambda array: in_chunks(array, size=14), False))
    np.testing.assert_allclose(llf, mgrec.statespace.log_likelihood(**model), rtol=1e-12)


@pytest.mark.gpu
@pytest.mark.parametrize("factor", [1.0001, 1.05, 3.0])
def test_unstable_states_without_noise_on_a_gpu(factor):
    model = plain(100_000, transition=np.full((1, 1), factor), state_cov=np.zeros((1, 1)))
    model["endog"] = np.random.default_rng(0).normal(size=(100_000, 1))
    wanted = mgrec.statespace.kalman_filter(**model)
    on_device = {name: on_gpu(array) for name, array in model.items()}
    filtered = mgrec.statespace.kalman_filter(**on_device)
    np.testing.assert_allclose(from_gpu(filtered.llf), wanted.llf, rtol=1e-11)
    states = from_gpu(filtered.filtered_state)
    np.testing.assert_allclose(states, wanted.filtered_state, rtol=1e-7, atol=1e-9)


def test_noise_of_selected_states_is_computed_in_float64():
    narrow = {name: array.astype(np.float32) for name, array in plain(50).items()}
    narrow["state_cov"] = np.full((1, 1), 0.7, np.float32)
    narrow["selection"] = np.full((1, 1), 0.1, np.float32)
    wide = {name: array.astype(float) for name, array in narrow.items()}
    llf = mgrec.statespace.log_likelihood(**narrow)
    np.testing.assert_allclose(llf, mgrec.statespace.log_likelihood(**wide), rtol=1e-14)


def filter_in_float32(model):
    """The plain form, whose covariances lose all digits."""
    Z, H, T, Q = (model[name] for name in ("design", "obs_cov", "transition", "state_cov"))
    a, P, means, covariances = model["initial_state"], model["initial_state_cov"], [], []
    for y in model["endog"]:
        gain = P @ Z.T @ inverse(Z @ P @ Z.T + H).astype(np.float32)
        a, P = a + gain @ (y - Z @ a), P - gain @ Z @ P
        means.append(a)
        covariances.append(P)
        a, P = T @ a, T @ P @ T.T + Q
    return np.array(means), np.array(covariances)


def test_ill_conditioned_models_of_float32():
    steps = np.arange(200)
    noise = 0.01 * np.random.default_rng(0).normal(size=200)
    model = {
        "endog": (0.01 * steps**2 + noise)[:, None],
        "design": np.array([[1.0, 0.0, 0.0]]),
        "obs_cov": np.array([[1e-4]]),
        "transition": np.eye(3) + np.diag(np.ones(2), 1),
        "state_cov": 1e-6 * np.eye(3),
        "initial_state": np.zeros(3),
        "initial_state_cov": 1e6 * np.eye(3),
    }
    narrow = {name: array.astype(np.float32) for name, array in model.items()}
    filtered = mgrec.statespace.kalman_filter(**narrow)
    wide = {name: array.astype(np.longdouble) for name, array in narrow.items()}
    none = {"selection": np.eye(3), "obs_intercept": np.zeros(1), "state_intercept": np.zeros(3)}
    _, means, covariances, *_ = loop({**wide, **none})
    deviations = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2)).astype(float)
    assert abs((filter_in_float32(narrow)[0] - means) / deviations).max() > 1
    assert filtered.filtered_state.dtype == np.float32
    scale = abs(means).max(0)
    assert abs((filtered.filtered_state - means) / scale).max() < 1e-6
    outer = deviations[:, :, None] * deviations[:, None]
    assert abs((filtered.filtered_state_cov - covariances) / outer).max() < 1e-5


def sums_of_exact_states(difference):
    """Two sums of three states that do not move, which differ by a part of one (Bierman 1977)."""
    generator, root = np.random.default_rng(0), difference**2
    design = np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0 + difference]])
    noise = difference * generator.normal(size=(20, 2))
    return {
        "endog": design @ generator.normal(size=3) + noise,
        "design": design,
        "obs_cov": root * np.eye(2),
        "transition": np.eye(3),
        "state_cov": np.zeros((3, 3)),
        "initial_state": np.zeros(3),
        "initial_state_cov": np.eye(3),
    }


def small_noise():
    """A level with a slope, whose observations have a noise of 1e-10 of that of the level."""
    model = local_linear_trend(60)
    names = "endog", "design", "transition", "initial_state"
    return {name: model[name] for name in names} | {
        "obs_cov": np.array([[1e-10]]),
        "state_cov": np.diag([1.0, 0.1]),
        "initial_state_cov": np.eye(2),
    }


@each_place
@pytest.mark.parametrize("model", [sums_of_exact_states(1e-3), sums_of_exact_states(1e-5), small_noise()])
def test_ill_conditioned_models_of_float32_keep_the_digits_of_float32(model, place):
    narrow = {name: array.astype(np.float32) for name, array in model.items()}
    wide = {name: array.astype(np.longdouble) for name, array in narrow.items()}
    n = len(model["transition"])
    none = {"obs_intercept": np.zeros(len(model["obs_cov"])), "state_intercept": np.zeros(n)}
    _, means, covariances, *_ = loop({**wide, "selection": np.eye(n), **none}, smooths=False)
    deviations = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    filtered = mgrec.statespace.kalman_filter(**placed(narrow, place, False))
    values = [to_host(array) for array in filtered[2:4]]
    assert {array.dtype for array in values} == {np.dtype(np.float32)}
    assert abs((values[0] - means) / deviations).max() < 1e-4
    outer = deviations[:, :, None] * deviations[:, None]
    assert abs((values[1] - covariances) / outer).max() < 1e-4
    with np.errstate(all="ignore"):
        _, plain_covariances = filter_in_float32(narrow)
    assert not abs((plain_covariances - covariances) / outer).max() < 1e-3


@each_memory
@pytest.mark.parametrize("name", ["obs_cov", "state_cov", "initial_state_cov"])
def test_the_symmetric_part_of_covariances_counts(name, move):
    model = blocks(plain(20, state_cov=np.eye(1)), plain(20, scale=2.0, state_cov=np.eye(1)))
    symmetric = model[name] + np.array([[0.0, 0.25], [0.25, 0.0]])
    wanted = mgrec.statespace.log_likelihood(**{**model, name: symmetric})
    skew = np.array([[0.0, 0.2], [-0.2, 0.0]])
    for matrix in (symmetric + skew, symmetric - skew):
        llf = mgrec.statespace.log_likelihood(**placed({**model, name: matrix}, move, False))
        np.testing.assert_allclose(to_host(llf), wanted, rtol=1e-14 if move is as_numpy else 1e-12)


def sample_loop(model, measurement_shocks, state_shocks, first_steps=()):
    steps = len(state_shocks)
    arrays = {
        name: np.broadcast_to(model[name], (steps, *model[name].shape[-ndim:]))
        for name, ndim in zip(MATRICES, (2, 2, 2, 2, 2, 1, 1), strict=True)
    }
    state, states = model["initial_state"], []
    for step in range(steps):
        state = model["initial_state"] if step in first_steps else state
        states.append(state)
        state = arrays["transition"][step] @ state + arrays["state_intercept"][step]
        state = state + arrays["selection"][step] @ state_shocks[step]
    observed = [Z @ a for Z, a in zip(arrays["design"], states, strict=True)]
    return np.array(observed) + arrays["obs_intercept"] + measurement_shocks, np.array(states)


@pytest.mark.parametrize("varies", [False, True])
@pytest.mark.parametrize("place", [*MEMORIES, in_chunks])
def test_samples_are_those_of_the_loop(varies, place):
    model = drawn(varies=varies)
    generator = np.random.default_rng(1)
    shocks = generator.normal(size=(40, 2)), generator.normal(size=(40, 2))
    names = {"design", "transition", "selection", "obs_intercept", "state_intercept"}
    wanted = sample_loop(model, *shocks)
    arguments = {name: model[name] for name in (*names, "initial_state")}
    arguments = placed(arguments, place, varies)
    shocks = dict(zip(("measurement_shocks", "state_shocks"), map(place, shocks), strict=True))
    samples = mgrec.statespace.sample(**arguments, **shocks)
    for values, exact in zip(assert_is_in(place, *samples), wanted, strict=True):
        np.testing.assert_allclose(values, exact, rtol=1e-11, atol=1e-11)


def test_samples_need_chunks_of_known_sizes():
    shocks = da.ones((10, 1), chunks=(5, 1))
    shocks = shocks[shocks[:, 0] > 0]
    with pytest.raises(ValueError, match="shocks must be in chunks of known sizes"):
        mgrec.statespace.sample(np.eye(1), np.eye(1), shocks, shocks, initial_state=[0.0])


@pytest.mark.parametrize("place", [*MEMORIES, in_chunks])
def test_samples_of_several_sequences(place):
    model, generator = drawn(varies=True), np.random.default_rng(1)
    shocks = generator.normal(size=(40, 2)), generator.normal(size=(40, 2))
    wanted = sample_loop(model, *shocks, first_steps={15, 16, 35})
    names = "design", "transition", "selection", "obs_intercept", "state_intercept", "initial_state"
    found = mgrec.statespace.sample(
        **{name: model[name] for name in names},
        measurement_shocks=place(shocks[0]),
        state_shocks=place(shocks[1]),
        lengths=[15, 1, 19, 5],
    )
    for values, exact in zip(found, wanted, strict=True):
        np.testing.assert_allclose(to_host(values), exact, rtol=1e-11, atol=1e-11)


def test_samples_of_rows_along_any_axis():
    generator = np.random.default_rng(1)
    shocks = generator.normal(size=(20, 3, 2)), generator.normal(size=(20, 3, 2))
    model = drawn(20)
    names = "design", "transition", "selection", "initial_state"
    arguments = {name: model[name] for name in names}
    endog, states = mgrec.statespace.sample(
        measurement_shocks=shocks[0], state_shocks=shocks[1], axis=0, **arguments
    )
    none = {"obs_intercept": np.zeros(2), "state_intercept": np.zeros(3)}
    for row in range(3):
        wanted = sample_loop({**model, **none}, shocks[0][:, row], shocks[1][:, row])
        np.testing.assert_allclose(endog[:, row], wanted[0], rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(states[:, row], wanted[1], rtol=1e-11, atol=1e-11)


@each_place
def test_rows_and_axes(place):
    model = drawn(20, rows=(2, 3))
    arguments = placed({**model, "endog": model["endog"].transpose(2, 0, 1, 3)}, place, False)
    for function in (mgrec.statespace.kalman_filter, mgrec.statespace.kalman_smoother):
        llf, *found = all_to_host(function(**arguments, axis=0))
        assert llf.shape == (2, 3)
        for row in np.ndindex(2, 3):
            of_row = {name: model[name][row] for name in ("endog", "initial_state", "initial_state_cov")}
            wanted = function(**{**model, **of_row})
            np.testing.assert_allclose(llf[row], wanted[0], rtol=1e-11)
            for values, others in zip(found, wanted[1:], strict=True):
                np.testing.assert_allclose(values[(slice(None), *row)], others, rtol=1e-9, atol=1e-10)


@each_place
def test_dtypes(place):
    model = drawn(20)
    narrow = {name: array.astype(np.float32) for name, array in model.items()}
    wanted = loop({name: array.astype(float) for name, array in narrow.items()})
    filtered = mgrec.statespace.kalman_filter(**placed(narrow, place, False))
    assert filtered.llf.dtype == np.float64
    assert {array.dtype for array in filtered[1:]} == {np.dtype(np.float32)}
    np.testing.assert_allclose(to_host(filtered.llf), wanted[0].sum(), rtol=1e-6)
    smoothed = mgrec.statespace.kalman_smoother(**placed(narrow, place, False))
    assert smoothed.smoothed_state.dtype == np.float32
    np.testing.assert_allclose(to_host(smoothed.smoothed_state), wanted[5], rtol=1e-4, atol=1e-5)


def test_defaults_and_empty_arrays():
    one = np.ones((1, 1))
    start = {"initial_state": [0.0], "initial_state_cov": one}
    filtered = mgrec.statespace.kalman_filter(np.zeros((0, 1)), one, one, one, one, **start)
    assert filtered.llf == 0
    assert filtered.filtered_state_cov.shape == (0, 1, 1)
    smoothed = mgrec.statespace.kalman_smoother(
        da.zeros((5, 1), chunks=((2, 0, 3), 1)), one, one, one, one, **start
    )
    assert smoothed.smoothed_state.compute().shape == (5, 1)
    np.testing.assert_array_equal(smoothed.smoothed_state, 0.0)


def test_no_steps_in_two_chunks():
    noise = da.zeros((0, 1, 2), chunks=((0, 0), 1, 2))
    drawn = mgrec.statespace.sample(np.eye(2), np.eye(2), noise, noise, initial_state=[0, 0], axis=0)
    assert drawn.endog.compute().shape == (0, 1, 2)
    endog, selection = noise[:, 0], da.zeros((0, 2, 2), chunks=((0, 0), 2, 2))
    filtered = mgrec.statespace.kalman_filter(
        endog,
        *[np.eye(2)] * 4,
        selection=selection,
        square_root=True,
        initial_state=[0.0, 0.0],
        initial_state_cov=np.eye(2),
    )
    assert filtered.filtered_state.compute().shape == (0, 2)


@pytest.mark.gpu
def test_no_rows_on_a_gpu():
    model = {name: on_gpu(array) for name, array in drawn(4, rows=(0,)).items()}
    for square_root in (False, True):
        smoothed = mgrec.statespace.kalman_smoother(**model, square_root=square_root)
        assert smoothed.smoothed_state.shape == (0, 4, 3)
        assert smoothed.smoothed_state_cov.shape == (0, 4, 3, 3)


def test_wrong_arguments_are_refused():
    model = drawn(20)

    def refuses(error, message, **changes):
        functions = "kalman_filter", "kalman_smoother", "log_likelihood"
        for name in functions:
            with pytest.raises(error, match=message):
                getattr(mgrec.statespace, name)(**{**model, **changes})

    refuses(ValueError, r"endog must have shape \(..., 2\)", endog=np.ones((20, 3)))
    refuses(ValueError, r"design must have shape \(..., observations", design=np.ones(3))
    refuses(ValueError, "design must have 1 to 16", design=np.ones((2, 17)))
    refuses(ValueError, r"obs_cov must have shape \(..., 2, 2\)", obs_cov=np.eye(3))
    refuses(ValueError, r"transition must have shape \(..., 3, 3\)", transition=np.eye(2))
    refuses(ValueError, r"state_cov must have shape \(..., 2, 2\)", state_cov=np.eye(3))
    refuses(ValueError, r"selection must have shape \(..., 3, 2\)", selection=np.ones((2, 2)))
    refuses(ValueError, r"selection must have shape \(..., states, noises\)", selection=1.0)
    refuses(ValueError, r"obs_intercept must have shape \(..., 2\)", obs_intercept=np.ones(3))
    refuses(ValueError, r"state_intercept must have shape", state_intercept=np.ones(2))
    refuses(ValueError, r"initial_state must have shape", initial_state=np.ones(2))
    refuses(ValueError, "initial_state_cov must have leading", initial_state_cov=np.ones((5, 3, 3)))
    refuses(ValueError, "endog must have an axis of steps", endog=np.ones(2))
    refuses(ValueError, "must broadcast", transition=np.ones((4, 3, 3)))
    refuses(TypeError, "transition must be real", transition=np.eye(3) + 0j)
    refuses(TypeError, "initial_state must be in memory", initial_state=da.ones(3))
    refuses(ValueError, "axis must be", axis=1)
    refuses(ValueError, "memory must be", memory="none")


def of_two_series(n=2):
    """Two series of ones, the matrices of a model of n states, and the first state."""
    others = np.ones((2, n)), np.eye(2), np.eye(n), np.eye(n)
    return np.ones((4, 2)), others, {"initial_state": np.zeros(n), "initial_state_cov": np.eye(n)}


@pytest.mark.parametrize("n", [1, 2])
def test_tables_give_tables_with_the_index(n):
    """The columns are those of observations, and would be wrong for states."""
    pandas = pytest.importorskip("pandas")
    values, others, start = of_two_series(n)
    frame = pandas.DataFrame(values, list("abcd"), columns=["gdp", "rate"])
    wanted = mgrec.statespace.kalman_filter(values, *others, **start)
    marks = pandas.Series([False] * 4, frame.index)
    filtered = mgrec.statespace.kalman_filter(frame, *others, **start, reset=marks)
    pandas.testing.assert_series_equal(filtered.llf_obs, pandas.Series(wanted.llf_obs, frame.index))
    pandas.testing.assert_frame_equal(
        filtered.filtered_state, pandas.DataFrame(wanted.filtered_state, frame.index)
    )
    assert {type(filtered.llf), type(filtered.filtered_state_cov)} == {np.float64, np.ndarray}
    with pytest.raises(ValueError, match="endog and reset must have the same index"):
        mgrec.statespace.kalman_filter(frame, *others, **start, reset=marks[::-1])
    shocks = pandas.DataFrame(np.ones((4, n)), frame.index)
    drawn = mgrec.statespace.sample(
        np.ones((2, n)), np.eye(n), frame, shocks, initial_state=start["initial_state"]
    )
    assert drawn.endog.index.equals(frame.index)
    assert list(drawn.endog.columns) == ["gdp", "rate"]
    assert list(drawn.states.columns) == [*range(n)]


def test_tables_of_dask_stay_lazy():
    pandas, frames = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    values, others, start = of_two_series()
    frame = pandas.DataFrame(values, range(1, 5), columns=["gdp", "rate"])
    wanted = mgrec.statespace.kalman_smoother(values, *others, **start).smoothed_state
    lazy = frames.from_pandas(frame, npartitions=2)
    smoothed = mgrec.statespace.kalman_smoother(lazy, *others, **start).smoothed_state
    assert smoothed.divisions == lazy.divisions
    pandas.testing.assert_frame_equal(smoothed.compute(), pandas.DataFrame(wanted, frame.index))


def test_gradients_of_observations_have_their_labels():
    pandas, xarray = pytest.importorskip("pandas"), pytest.importorskip("xarray")
    one = np.ones((1, 1))
    start = {"initial_state": [0.0], "initial_state_cov": one}
    values = np.array([1.0, 2.0, 4.0])

    def gradients(endog):
        adjoint = mgrec.adjoint.statespace_log_likelihood
        return adjoint(1.0, endog, one, one, one, one, **start)

    wanted, *others = gradients(values)
    table = pandas.Series(values, range(2000, 2003))
    for labelled in (table, table.to_frame(), xarray.DataArray(table, dims="year")):
        found, *rest = gradients(labelled)
        assert found.equals(0 * labelled + wanted.reshape(labelled.shape))
        assert [*map(type, rest)] == [*map(type, others)]


def test_data_arrays_keep_names_and_coordinates():
    xarray = pytest.importorskip("xarray")
    values, others, start = of_two_series()
    rows = np.stack([values, 2 * values, values])
    coords = {"place": list("xyz"), "year": range(2000, 2004), "series": ["gdp", "rate"]}
    data = xarray.DataArray(rows, coords, ("place", "year", "series"))
    wanted = mgrec.statespace.kalman_filter(rows, *others, **start)
    design = xarray.DataArray(others[0], dims=("series", "state"))
    marks = xarray.DataArray([False] * 4, {"year": coords["year"]}, "year")
    for dim in ({"dim": "year"}, {"axis": "year"}, {"axis": 1}):
        filtered = mgrec.statespace.kalman_filter(data, design, *others[1:], **start, reset=marks, **dim)
        for name, values in zip(wanted._fields, wanted, strict=True):
            np.testing.assert_array_equal(getattr(filtered, name), values)
        assert filtered.llf.dims == ("place",)
        assert filtered.llf_obs.dims == ("place", "year")
        assert filtered.filtered_state.dims == ("place", "year", "state")
        assert filtered.filtered_state.year.equals(data.year)
        assert filtered.filtered_state_cov.dims == ("place", "year", "state", "other_state")
    with pytest.raises(ValueError, match=r"dim must be one of the dimensions \('place', 'year'\)"):
        mgrec.statespace.kalman_filter(data, *others, **start)
    with pytest.raises(ValueError, match="exact"):
        mgrec.statespace.kalman_filter(data, *others, **start, reset=marks[1:], dim="year")


def test_samples_of_data_arrays():
    xarray = pytest.importorskip("xarray")
    values, others, start = of_two_series()
    noises = xarray.DataArray(values, {"year": range(4), "series": ["a", "b"]}, ("year", "series"))
    moves = noises.rename(series="noise")
    model = others[0], others[2]
    initial = {"initial_state": start["initial_state"]}
    drawn = mgrec.statespace.sample(*model, noises, moves, **initial)
    wanted = mgrec.statespace.sample(*model, values, values, **initial)
    assert (drawn.endog.dims, drawn.states.dims) == (("year", "series"), ("year", "state"))
    for found, array in zip(drawn, wanted, strict=True):
        np.testing.assert_array_equal(found, array)


SINGLE = {"array": np.asarray, "list": list, "dask": lambda y: da.from_array(y, chunks=7)}


@pytest.mark.parametrize("make", SINGLE.values(), ids=SINGLE)
def test_observations_of_one_number_need_no_axis(make):
    model = drawn(20, 2, 1)
    wanted = mgrec.statespace.kalman_filter(**model)
    model["endog"] = make(model["endog"][:, 0])
    for found, values in zip(mgrec.statespace.kalman_filter(**model), wanted, strict=True):
        np.testing.assert_allclose(found, values, rtol=1e-12)


def test_a_series_of_observations_gives_series():
    pandas = pytest.importorskip("pandas")
    model = drawn(20, 2, 1)
    wanted = mgrec.statespace.kalman_filter(**model)
    series = pandas.Series(model["endog"][:, 0], range(5, 25), name="level")
    filtered = mgrec.statespace.kalman_filter(**{**model, "endog": series})
    pandas.testing.assert_frame_equal(
        filtered.filtered_state, pandas.DataFrame(wanted.filtered_state, series.index)
    )
    assert filtered.llf_obs.index.equals(series.index)


def test_gradients_of_observations_of_one_number():
    torch = pytest.importorskip("torch")
    model = drawn(20, 2, 1, gaps=False)
    gradients = []
    for endog in (model["endog"], model["endog"][:, 0]):
        tensor = torch.tensor(endog, requires_grad=True)
        mgrec.statespace.log_likelihood(**{**model, "endog": tensor}).backward()
        gradients.append(tensor.grad.numpy())
    np.testing.assert_array_equal(gradients[1], gradients[0][:, 0])


def test_samples_of_a_series_number_their_columns():
    pandas = pytest.importorskip("pandas")
    noises, moves = pandas.Series(np.ones(4), list("abcd")), np.ones((4, 2))
    drawn = mgrec.statespace.sample(
        np.ones((1, 2)),
        np.eye(2),
        noises,
        pandas.DataFrame(moves, noises.index, ["x", "y"]),
        initial_state=[0.0, 0.0],
    )
    for table, columns in ((drawn.endog, [0]), (drawn.states, [0, 1])):
        assert list(table.columns) == columns
        assert list(table.index) == list("abcd")


def test_one_axis_is_not_enough_for_several_numbers():
    model = drawn(20, 2, 2)
    with pytest.raises(ValueError, match=r"endog must have an axis of steps and one of 2 entries"):
        mgrec.statespace.log_likelihood(**{**model, "endog": np.ones(20)})


def test_the_loop_of_these_tests_can_fail():
    model = drawn(20)
    wanted = loop(model)
    model["transition"][0, 0] += 1e-6
    filtered = mgrec.statespace.kalman_filter(**model)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(filtered.llf, wanted[0].sum(), rtol=1e-12)
