"""check_laws finds every law that is broken, as does the first scan with a map of a user's own."""

import math
import warnings

import dask.array as da
import numpy as np
import pytest
from internals import record_checked_laws

import mgrec

with warnings.catch_warnings():
    warnings.simplefilter("ignore", PendingDeprecationWarning)
    MATRIX = np.matrix([1])
LAW = r"compose of .* must keep the law apply\(compose\(f, g\), x\) == apply\(g, apply\(f, x\)\)"


def lazily(x):
    return da.from_array(x, chunks=700)


def on_gpu(x):
    return pytest.importorskip("cupy").asarray(x)


PLACES = [np.asarray, lazily, pytest.param(on_gpu, marks=pytest.mark.gpu)]


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    """The checks; maps that compute the same as those of another test are equal to them."""
    return record_checked_laws(monkeypatch)


def total(**changed):
    parts = {
        "lift": lambda x: (x,),
        "compose": lambda f, g: (f[0] + g[0],),
        "apply": lambda f, w: w + f[0],
        "identity": (0,),
        "name": "total",
    }
    return mgrec.TransferMap(**{**parts, **changed})


WRONG = {"compose": lambda f, g: (f[0] - g[0],)}


def tank(low, high, is_forgotten=False):
    def lift(flow):
        return flow, low, high

    def apply(step, level):
        shift, lowest, highest = step
        return np.minimum(np.maximum(level + shift, lowest), highest)

    def compose(earlier, later):
        shift, lowest, highest = earlier
        return shift + later[0], apply(later, lowest), apply(later, highest)

    def compose_without_clip(earlier, later):
        return earlier[0] + later[0], earlier[1], earlier[2]

    wrong = compose_without_clip if is_forgotten else compose
    return mgrec.TransferMap(lift, wrong, apply, identity=(0.0, -np.inf, np.inf), name="tank")


def solve(result):
    return result.compute(scheduler="sync") if hasattr(result, "compute") else result


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_wrong_compose_is_refused(place, reverse, monkeypatch):
    monkeypatch.setenv("MGREC_NUM_THREADS", "1")
    wrong = total(**WRONG)
    for steps in (1, 2, 3000):
        with pytest.raises(ValueError, match=LAW + r"; got .* by the steps lift\(1.0\), ") as told:
            solve(mgrec.scan(wrong, place(np.ones(steps)), initial=0.0, reverse=reverse))
        assert "mgrec.check_laws" in str(told.value)
        assert "check_laws=False" in str(told.value)


def test_a_refused_map_is_refused_every_time():
    # Operands that are not finite tell nothing.
    mgrec.scan(total(**WRONG), np.full(5, np.nan), initial=0.0)
    for reset in (None, None, np.arange(9) // 3, None):
        with pytest.raises(ValueError, match=LAW):
            mgrec.scan(total(**WRONG), np.ones(9), initial=0.0, reset=reset)


@pytest.mark.parametrize("place", PLACES)
def test_a_rare_violation_is_found_where_states_show_it(place):
    flow = np.random.default_rng(0).normal(size=5000)
    assert solve(mgrec.scan(tank(0.0, 10.0), place(flow), initial=5.0))[-1] >= 0
    wrong = tank(0.0, 10.0, is_forgotten=True)
    # No level comes to the ends here, and a longer call is checked as well.
    mgrec.scan(wrong, flow[:5], initial=5.0)
    with pytest.raises(ValueError, match="compose of tank must keep the law"):
        solve(mgrec.scan(wrong, place(flow), initial=5.0))


@pytest.mark.parametrize("place", PLACES)
def test_coefficients_are_checked_by_their_values(place):
    wrong = total(lift=lambda s, x: (s + x,), **WRONG)
    index = mgrec.Coefficient(lambda i, rate: i * rate, 2.0)
    with pytest.raises(ValueError, match=r"by the steps lift\(0.0, 1.0\), lift\(2.0, 1.0\)"):
        solve(mgrec.scan(wrong, index, place(np.ones(9)), initial=0.0))


def test_functions_that_raise_in_python_alone():
    logarithm = mgrec.Coefficient(lambda i: math.log(i))
    total_of_two = total(lift=lambda s, x: (s + x,))
    assert mgrec.scan(total_of_two, logarithm, np.ones(9), initial=0.0)[-1] == -np.inf


@pytest.mark.parametrize(
    ("given", "x"),
    [
        (tank(-128, 127), np.random.default_rng(1).integers(-90, 90, 300).astype(np.int16)),
        *(
            pytest.param(*case, marks=pytest.mark.extended)
            for case in [
                (total(), np.random.default_rng(2).normal(size=3000).astype(np.float32) * 1e6),
                (total(), np.full(300, 2**62)),  # modulo 2**64
                (total(identity=(-np.inf,), compose=lambda f, g: (f[0] + g[0],)), np.arange(9)),
            ]
        ),
        (
            mgrec.TransferMap(  # fixed point, rounded by every product
                lambda x: (230, x),
                lambda f, g: ((f[0] * g[0]) >> 8, ((f[1] * g[0]) >> 8) + g[1]),
                lambda f, w: ((f[0] * w) >> 8) + f[1],
                (256, 0),
            ),
            np.random.default_rng(3).integers(-3000, 3000, 300),
        ),
    ],
)
def test_maps_that_round_are_not_refused(given, x):
    mgrec.scan(given, x, initial=0)


def test_the_check_can_be_left_out():
    wrong = total(**WRONG, check_laws=False)
    assert mgrec.scan(wrong, np.ones(4), initial=0.0).tolist() == [1, 2, 3, 4]
    with pytest.raises(TypeError, match="check_laws must be True or False; got 1"):
        total(check_laws=1)


def test_integers_are_checked_modulo_their_range():
    """A sum of int32 numbers wraps around, which changes the larger of two numbers."""
    largest = mgrec.TransferMap(
        lift=lambda s, t: (s, t),
        compose=lambda f, g: (f[0] + g[0], np.maximum(f[1] + g[0], g[1])),
        apply=lambda f, w: np.maximum(w + f[0], f[1]),
        identity=(0, -(2**31)),
    )
    with pytest.raises(ValueError, match="must keep the law"):
        mgrec.scan(largest, np.full(12, 2**29, "i4"), np.full(12, -5, "i4"), initial=0)


def test_only_first_calls_are_checked(checked):
    for steps in (10, 10, 20, 200, 3000):
        mgrec.scan(total(), np.ones(steps), initial=0.0)
    assert len(checked) == 2
    mgrec.scan(mgrec.maps.max_plus, np.ones(10), 0.0, initial=0.0)
    assert len(checked) == 2


def affine_like(**changed):
    parts = {
        "lift": lambda s, t: (s, t),
        "compose": lambda f, g: (g[0] * f[0], g[0] * f[1] + g[1]),
        "apply": lambda f, w: f[0] * w + f[1],
        "identity": (1.0, 0.0),
    }
    return mgrec.TransferMap(**{**parts, **changed})


@pytest.mark.parametrize(
    ("changed", "law"),
    [
        ({"compose": lambda f, g: (g[0], g[0] * f[1] + g[1])}, r"apply\(compose\(f, g\), x\)"),
        ({"compose": lambda f, g: (f[0] * g[0], f[0] * g[1] + f[1])}, r"apply\(compose\(f, g\), x"),
        ({"identity": (1.0, 1.0)}, r"compose\(identity, f\) == f"),
        ({"identity": (0.0, 0.0)}, r"compose\(identity, f\) == f"),
    ],
)
def test_a_broken_law_is_named_with_a_counterexample(changed, law):
    with pytest.raises(AssertionError, match=rf"^{law}.* does not hold: .* x = "):
        mgrec.check_laws(affine_like(**changed))


def test_a_rare_violation_is_found():
    rare = affine_like(compose=lambda f, g: (g[0] * f[0], g[0] * f[1] + g[1] + np.where(g[1] > 2, 1.0, 0.0)))
    with pytest.raises(AssertionError, match="does not hold"):
        mgrec.check_laws(rare)
    mgrec.check_laws(rare, samples=1, seed=1)


def test_draws_of_the_user():
    drawn = []

    def small(generator):
        drawn.append(generator.uniform(0, 1e-3))
        return drawn[-1]

    mgrec.check_laws(affine_like(), small, small, state=small, samples=10)
    assert len(drawn) == 10 * (3 * 2 + 1)


def test_exact_maps_can_be_asked_to_be_exact():
    assert mgrec.check_laws(affine_like()) is None
    draws = [lambda g: g.integers(-9, 9)] * 2
    mgrec.check_laws(affine_like(), *draws, state=draws[0], rtol=0, atol=0)
    with pytest.raises(AssertionError):
        mgrec.check_laws(affine_like(), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("options", "wrong", "message"),
    [
        ({"samples": 0}, ValueError, "samples must be 1 or more; got 0"),
        ({"samples": -1}, ValueError, "samples must be 1 or more"),
        ({"seed": -1}, ValueError, "seed must be 0 or more; got -1"),
        ({"seed": MATRIX}, TypeError, "seed must be an integer"),
        ({"rtol": da.ones(3)}, TypeError, "rtol must be a real number"),
        ({"atol": da.ones(3)}, TypeError, "atol must be a real number"),
    ],
)
def test_options_are_checked(options, wrong, message):
    with pytest.raises(wrong, match=message):
        mgrec.check_laws(affine_like(), **options)
    with pytest.raises(ValueError, match="lift takes 2 operands; got 1 functions to draw them"):
        mgrec.check_laws(affine_like(), lambda g: 1.0)


def test_a_state_that_is_a_tuple_must_be_drawn():
    sums = mgrec.TransferMap(
        lift=lambda x: (x, x, x),
        compose=lambda f, g: (f[0] + g[0], f[1] + g[1], f[2] + g[2]),
        apply=lambda f, state: (state[0] + f[0], state[1] + f[1], state[2] + f[2]),
        identity=(0.0, 0.0, 0.0),
        name="sums",
    )
    with pytest.raises(ValueError, match="apply of sums takes it: pass state=, a function"):
        mgrec.check_laws(sums)
    mgrec.check_laws(sums, state=lambda generator: tuple(generator.standard_normal(3)))
