"""check_laws finds every law that is broken, and names it."""

import dask.array as da
import numpy as np
import pytest

import mgrec


def affine_like(**changed):
    parts = {
        "lift": lambda s, t: (s, t),
        "compose": lambda f, g: (g[0] * f[0], g[0] * f[1] + g[1]),
        "apply": lambda f, w: f[0] * w + f[1],
        "identity": (1.0, 0.0),
    }
    return mgrec.TransferMap(**{**parts, **changed})


def test_a_lawful_map_passes():
    assert mgrec.check_laws(affine_like()) is None


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
    rare = affine_like(
        compose=lambda f, g: (g[0] * f[0], g[0] * f[1] + g[1] + np.where(g[1] > 2, 1.0, 0.0))
    )
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
    draws = [lambda g: g.integers(-9, 9)] * 2
    mgrec.check_laws(affine_like(), *draws, state=draws[0], rtol=0, atol=0)
    with pytest.raises(AssertionError):
        mgrec.check_laws(affine_like(), rtol=0, atol=0)


def test_the_number_of_draws_is_checked():
    with pytest.raises(ValueError, match="lift takes 2 operands; got 1 functions to draw them"):
        mgrec.check_laws(affine_like(), lambda g: 1.0)


@pytest.mark.parametrize(
    ("options", "wrong", "message"),
    [
        ({"samples": 0}, ValueError, "samples must be 1 or more; got 0"),
        ({"samples": -1}, ValueError, "samples must be 1 or more"),
        ({"seed": -1}, ValueError, "seed must be 0 or more; got -1"),
        ({"seed": np.matrix([1])}, TypeError, "seed must be an integer"),
        ({"rtol": da.ones(3)}, TypeError, "rtol must be a real number"),
        ({"atol": da.ones(3)}, TypeError, "atol must be a real number"),
    ],
)
def test_options_are_checked(options, wrong, message):
    with pytest.raises(wrong, match=message):
        mgrec.check_laws(affine_like(), **options)


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
