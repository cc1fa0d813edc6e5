"""The square-root form of state space models against textbook loops in 80 digits."""

from decimal import Decimal, localcontext

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import MEMORIES, all_to_host, to_host

import mgrec

pytestmark = pytest.mark.usefixtures("short_segments")
LOG_2_PI = Decimal("1.83787706640934548356065947281123527972279494727556682563")
wide = np.vectorize(Decimal, otypes=[object])


def inverse(matrix):
    """The inverse by Gauss and Jordan, and the determinant."""
    size, determinant = len(matrix), Decimal(1)
    both = np.concatenate([matrix, wide(np.eye(size))], axis=1)
    for k in range(size):
        determinant *= both[k, k]
        both[k] = both[k] / both[k, k]
        for j in range(size):
            if j != k:
                both[j] = both[j] - both[j, k] * both[k]
    return both[:, size:], determinant


def loop(model):
    """The log-likelihood, and means and covariances: filtered, predicted and smoothed.

    The smoother is that of Durbin and Koopman, which inverts no covariance of states.
    """
    with localcontext() as context:
        context.prec = 80
        Z, H, T, Q, R, a, P = (wide(np.asarray(model[name], float)) for name in NAMES)
        y, llf, predicted, filtered, smoothed, steps = model["endog"], Decimal(0), [], [], [], []
        for row in y:
            predicted.append((a, P))
            seen = ~np.isnan(row)
            F, determinant = inverse(Z[seen] @ P @ Z[seen].T + H[np.ix_(seen, seen)])
            v = wide(row[seen]) - Z[seen] @ a if seen.any() else np.zeros(0, object)
            if seen.any():
                llf -= (len(v) * LOG_2_PI + determinant.ln() + v @ F @ v) / 2
                a, P = a + P @ Z[seen].T @ F @ v, P - P @ Z[seen].T @ F @ Z[seen] @ P
            steps.append((Z[seen].T @ F, v, Z[seen]))
            filtered.append((a, P))
            a, P = T @ a, T @ P @ T.T + R @ Q @ R.T
        r, N = T[0] * 0, T * 0
        for (a, P), (gain, v, Z) in zip(predicted[::-1], steps[::-1], strict=True):
            r, N = T.T @ r, T.T @ N @ T
            if len(v):
                E = wide(np.eye(len(a))) - P @ gain @ Z
                r, N = gain @ v + E.T @ r, gain @ Z + E.T @ N @ E
            smoothed.append((a + P @ r, P - P @ N @ P))
        columns = [zip(*pairs, strict=True) for pairs in (filtered, predicted, smoothed[::-1])]
        return float(llf), *(np.array(list(part), float) for pair in columns for part in pair)


NAMES = ("design", "obs_cov", "transition", "state_cov", "selection", "initial_state", "initial_state_cov")


def drawn_from(generator, steps, **arrays):
    """A model and observations that it may have."""
    model = {name: np.asarray(arrays[name], float) for name in NAMES if name in arrays}
    n = len(model["transition"])
    model = {"selection": np.eye(n), "initial_state": np.zeros(n), **model}

    def draw(covariance):
        values, vectors = np.linalg.eigh(covariance)
        return vectors @ (np.sqrt(np.maximum(values, 0)) * generator.normal(size=len(values)))

    state, rows = model["initial_state"] + draw(model["initial_state_cov"]), []
    for _ in range(steps):
        rows.append(model["design"] @ state + draw(model["obs_cov"]))
        state = model["transition"] @ state + model["selection"] @ draw(model["state_cov"])
    return {**model, "endog": np.array(rows)}


def sums_of_exact_states(difference):
    """Two sums of three states that do not move, which differ by a part of one (Bierman 1977)."""
    return drawn_from(
        np.random.default_rng(0),
        20,
        design=[[1.0, 1.0, 1.0], [1.0, 1.0, 1.0 + difference]],
        obs_cov=difference**2 * np.eye(2),
        transition=np.eye(3),
        state_cov=np.zeros((3, 3)),
        initial_state_cov=np.eye(3),
    )


def diffuse(variance, n=2):
    """A level with a slope, or a longer chain, of whose start nothing is known."""
    model = drawn_from(
        np.random.default_rng(0),
        40,
        design=np.eye(1, n),
        obs_cov=[[1.0]],
        transition=np.eye(n) + np.diag(np.ones(n - 1), 1),
        state_cov=0.01 * np.eye(n),
        initial_state_cov=np.eye(n),
    )
    return {**model, "initial_state_cov": variance * np.eye(n)}


def nearly_exact():
    """An autoregression whose observations have noise of 1e-14 of that of the state, and a gap."""
    model = drawn_from(
        np.random.default_rng(0),
        40,
        design=np.eye(1, 3),
        obs_cov=[[1e-14]],
        transition=[[0.5, 0.2, -0.1], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
        state_cov=[[1.0]],
        selection=np.eye(3, 1),
        initial_state_cov=1e6 * np.eye(3),
    )
    model["endog"][20:23] = np.nan
    return model


ILL_CONDITIONED = {
    "sums": sums_of_exact_states(1e-7),
    "diffuse": diffuse(1e14),
    "chain": diffuse(1e12, 3),
    "exact": nearly_exact(),
}


def placed(model, place, chunk=None, lazy=("endog",)):
    """The model in host memory or on a GPU, with some arrays in chunks."""
    arrays = {name: place(array) for name, array in model.items()}
    if chunk is not None:
        for name in lazy:
            sizes = (1,) * (model[name].ndim - (2 if name == "endog" else 3))
            axes = model[name].shape[len(sizes) + 1 :]
            arrays[name] = da.from_array(arrays[name], chunks=(*sizes, chunk, *axes))
    return arrays


def errors(model, square_root, chunk=None, place=np.asarray):
    """Errors of the log-likelihood, of means in deviations and of covariances in their products."""
    arrays = placed(model, place, chunk)
    filtered = mgrec.statespace.kalman_filter(**arrays, square_root=square_root)
    smoothed = mgrec.statespace.kalman_smoother(**arrays, square_root=square_root)
    llf, *wanted = loop({name: array.astype(float) for name, array in model.items()})
    found_llf, _, *values = all_to_host((*filtered, *smoothed[1:]))
    found = [abs(found_llf / llf - 1)]
    for k in (0, 2, 4):
        deviations = np.sqrt(np.diagonal(wanted[k + 1], axis1=1, axis2=2))
        outer = deviations[:, :, None] * deviations[:, None]
        found += [
            np.max(abs(values[k] - wanted[k]) / deviations),
            np.max(abs(values[k + 1] - wanted[k + 1]) / outer),
        ]
    return np.array(found)


@pytest.mark.extended
@pytest.mark.parametrize("chunk", [None, 1, 2, 7])
@pytest.mark.parametrize("name", ILL_CONDITIONED)
@pytest.mark.parametrize("place", MEMORIES)
def test_ill_conditioned_models(place, name, chunk):
    with np.errstate(all="ignore"):
        assert not errors(ILL_CONDITIONED[name], False, chunk, place).max() < 1e-4
    # Deviations differ by 1e10 in one of these models, and so do roundings of the smallest one.
    assert errors(ILL_CONDITIONED[name], True, chunk, place).max() < 5e-6


@pytest.mark.extended
@pytest.mark.parametrize("chunk", [None, 7])
@pytest.mark.parametrize("name", ["sums", "diffuse"])
@pytest.mark.parametrize("place", MEMORIES)
def test_ill_conditioned_models_of_float32(place, name, chunk):
    """Float64 inside is not enough here, which it is for the models of test_statespace.py."""
    model = {"sums": sums_of_exact_states(2.0**-23), "diffuse": diffuse(1e14)}[name]
    narrow = {key: array.astype(np.float32) for key, array in model.items()}
    with np.errstate(all="ignore"):
        assert not errors(narrow, False, chunk, place).max() < 1e-3
    # Also the rounding of results, whose states are some hundred deviations.
    assert errors(narrow, True, chunk, place).max() < 1e-4


@pytest.mark.parametrize("place", MEMORIES)
def test_log_likelihoods_of_ill_conditioned_models(place):
    model = ILL_CONDITIONED["sums"]
    wanted = loop(model)[0]
    for chunk in (None, 7):
        arrays = placed(model, place, chunk)
        roots, plain = (mgrec.statespace.log_likelihood(**arrays, square_root=form) for form in (True, False))
        roots, plain = all_to_host((roots, plain))
        np.testing.assert_allclose(roots, wanted, rtol=1e-9)
        assert abs(plain / wanted - 1) > 1e-6


@pytest.mark.extended
@pytest.mark.parametrize("chunk", [None, 7])
@pytest.mark.parametrize("place", MEMORIES)
def test_singular_covariances(place, chunk):
    """The second state is a third of the first one, so that rounding rotates columns of roots."""
    loads = np.array([[1.0, 0.0], [1 / 3, 0.0], [0.7, 1.0]])
    model = drawn_from(
        np.random.default_rng(0),
        40,
        design=np.ones((1, 3)),
        obs_cov=[[1.0]],
        transition=np.diag([0.9, 0.9, 0.8]) + np.outer([0.0, 0.0, 0.3], [1.0, 1.0, 0.0]),
        state_cov=np.eye(2),
        selection=loads,
        initial_state_cov=loads @ loads.T,
    )
    assert errors(model, True, chunk, place).max() < 1e-12


@pytest.mark.extended
@pytest.mark.parametrize("place", MEMORIES)
def test_variances_are_not_negative(place):
    for model in ILL_CONDITIONED.values():
        arrays = placed(model, place)
        result = mgrec.statespace.kalman_smoother(**arrays, square_root=True)
        filtered = mgrec.statespace.kalman_filter(**arrays, square_root=True)
        for covariance in all_to_host((result[2], *filtered[3::2])):
            deviations = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
            outer = deviations[:, :, None] * deviations[:, None]
            assert (abs(covariance) <= outer * (1 + 1e-14)).all()
            np.testing.assert_array_equal(covariance, covariance.swapaxes(1, 2))


@st.composite
def models(draw):
    n, p = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    root, rank = generator.normal(size=(n, n)), draw(st.integers(1, n))
    transition = draw(st.sampled_from(["any", "shift", "singular"]))
    matrix = 0.9 * generator.normal(size=(n, n)) / np.sqrt(n)
    if transition == "shift":
        matrix = np.eye(n, k=-1)
        matrix[0] = generator.normal(size=n) / (2 * n)
    if transition == "singular":
        matrix[:, 0] = 0
    # Noise of all states allows observations without noise, if they are not more than the states.
    smallest = -300 if rank == n and p <= n else -6
    model = drawn_from(
        generator,
        draw(st.integers(1, 12)),
        design=generator.normal(size=(p, n)),
        obs_cov=10.0 ** draw(st.sampled_from([0, smallest])) * np.eye(p),
        transition=matrix,
        state_cov=np.eye(rank),
        selection=root[:, :rank],
        initial_state_cov=10.0 ** draw(st.sampled_from([0, 6])) * np.eye(n),
    )
    if draw(st.booleans()):
        model["endog"][generator.random(model["endog"].shape) < 0.3] = np.nan
    return model


@pytest.mark.extended
@given(model=models(), chunk=st.one_of(st.none(), st.integers(1, 5)))
def test_models_with_singular_matrices_in_any_chunks(model, chunk):
    llf, *wanted = loop(model)
    arrays = placed(model, np.asarray, chunk)
    filtered = mgrec.statespace.kalman_filter(**arrays, square_root=True)
    smoothed = mgrec.statespace.kalman_smoother(**arrays, square_root=True)
    found_llf, _, *found = all_to_host((*filtered, *smoothed[1:]))
    np.testing.assert_allclose(found_llf, llf, rtol=1e-8, atol=1e-8)
    for values, exact in zip(found, wanted, strict=True):
        np.testing.assert_allclose(values, exact, rtol=1e-6, atol=1e-6)


@pytest.mark.extended
@pytest.mark.parametrize("varies", [False, True])
@pytest.mark.parametrize("place", MEMORIES)
def test_all_arguments(place, varies):
    """Rows, resets, intercepts, more noises than states, gaps: the results of the plain form."""
    generator = np.random.default_rng(0)
    steps, leading = 30, (2, 30) if varies else ()

    def covariance(size, leading=()):
        root = generator.normal(size=(*leading, size, size))
        return root @ root.swapaxes(-1, -2) + 0.1 * np.eye(size)

    model = {
        "endog": generator.normal(size=(2, steps, 2)),
        "design": generator.normal(size=(*leading, 2, 3)),
        "obs_cov": covariance(2, leading),
        "transition": generator.normal(size=(*leading, 3, 3)) / 3,
        "state_cov": covariance(4, leading),
        "selection": generator.normal(size=(*leading, 3, 4)),
        "obs_intercept": generator.normal(size=(*leading, 2)),
        "state_intercept": generator.normal(size=(*leading, 3)),
        "initial_state": generator.normal(size=(2, 3)),
        "initial_state_cov": covariance(3, (2,)),
    }
    model["endog"][0, 4:7] = model["endog"][1, 9, 0] = np.nan
    lazy = {"endog", "obs_cov", "state_cov", "transition"} if varies else {"endog"}
    for reset in (None, np.arange(steps) % 11 == 4):
        for function in (mgrec.statespace.kalman_filter, mgrec.statespace.kalman_smoother):
            wanted = function(**model, reset=reset)
            for size in (None, 1, 7):
                arrays = placed(model, place, size, lazy)
                marks = None if reset is None else place(reset)
                values = function(**arrays, reset=marks, square_root=True)
                values = all_to_host(values)
                for value, other in zip(values, wanted, strict=True):
                    np.testing.assert_allclose(value, other, rtol=1e-10, atol=1e-11)


@pytest.mark.extended
@pytest.mark.parametrize("place", MEMORIES)
def test_unstable_states_and_negative_variances(place):
    model = diffuse(1.0)
    model.update(transition=np.diag([3.0, 0.5]), state_cov=np.zeros((2, 2)))
    wanted = mgrec.statespace.kalman_smoother(**model, square_root=True)
    for chunk in (None, 7):
        values = mgrec.statespace.kalman_smoother(**placed(model, place, chunk), square_root=True)
        for value, other in zip(all_to_host(values), wanted, strict=True):
            np.testing.assert_allclose(value, other, rtol=1e-9, atol=1e-11)
    model["obs_cov"] = np.full((1, 1), -1.0)
    llf = mgrec.statespace.log_likelihood(**placed(model, place), square_root=True)
    assert np.isnan(to_host(llf)).all()


def test_axes_of_a_matrix_in_different_chunks():
    model = drawn_from(
        np.random.default_rng(0),
        4,
        design=np.ones((1, 3)),
        obs_cov=[[1.0]],
        transition=np.eye(3),
        state_cov=np.eye(3),
        initial_state_cov=np.eye(3),
    )
    wanted = mgrec.statespace.log_likelihood(**model, square_root=True)
    del model["selection"]
    state_cov = np.tile(model["state_cov"], (4, 1, 1))
    model["state_cov"] = da.from_array(state_cov, chunks=(2, (1, 1, 1), (2, 1)))
    model["endog"] = da.from_array(model["endog"], chunks=(2, 1))
    llf = mgrec.statespace.log_likelihood(**model, square_root=True)
    np.testing.assert_allclose(llf, wanted, rtol=1e-13)


def test_wrong_arguments_are_refused():
    model = diffuse(1.0)
    for name in ("kalman_filter", "kalman_smoother", "log_likelihood"):
        with pytest.raises(TypeError, match="square_root must be True or False"):
            getattr(mgrec.statespace, name)(**model, square_root="yes")
