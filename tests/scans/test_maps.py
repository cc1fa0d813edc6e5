"""The ready-made maps, each against what it is for."""

import numpy as np
import pytest

import mgrec
from mgrec import maps

ALL = [maps.affine, maps.matrix2, maps.max_plus, maps.min_plus, maps.mobius]


def test_names_and_docstring():
    assert [transfer_map.name for transfer_map in ALL] == sorted({*maps.__all__} - {"matrix"})
    for transfer_map in ALL:
        assert getattr(maps, transfer_map.name) is transfer_map
        assert f"``{transfer_map.name}``" in maps.__doc__


@pytest.mark.parametrize("transfer_map", ALL, ids=lambda m: m.name)
def test_wrong_order_of_composition_breaks_the_laws(transfer_map):
    compose = transfer_map.compose
    swapped = mgrec.TransferMap(
        transfer_map.lift,
        lambda earlier, later: compose(later, earlier),
        transfer_map.apply,
        transfer_map.identity,
    )
    two = transfer_map is maps.matrix2
    state = (lambda g: tuple(g.normal(size=2))) if two else None
    with pytest.raises(AssertionError, match="does not hold"):
        mgrec.check_laws(swapped, state=state)


def test_waiting_times_in_a_queue():
    generator = np.random.default_rng(0)
    arrivals = np.cumsum(generator.exponential(1.0, 500))
    service = generator.exponential(0.9, 500)
    start, free = [], 0.0
    for arrival, duration in zip(arrivals, service, strict=True):
        start.append(max(arrival, free))
        free = start[-1] + duration
    waiting = np.array(start) - arrivals
    w = mgrec.scan(maps.max_plus, service[:-1] - np.diff(arrivals), 0.0, initial=0.0)
    np.testing.assert_allclose(w, waiting[1:], atol=1e-10)


@pytest.mark.parametrize(
    "step", [(1e-310, 1e300, -3.0, 0.0), (1e-300, 0.0, 0.0, 1e-307), (0.0, 1e300, 1e-300, 0.0)], ids=str
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_columns_of_mobius_products_stay_in_range(step):
    product = tuple(map(np.float64, maps.mobius.lift(*step)))
    for _ in range(100):
        product = maps.mobius.compose(product, product)
        a, b, c, d, apart = product
        assert 0 < max(abs(a), abs(c)) < np.inf
        assert 0 < max(abs(b), abs(d)) < np.inf
        assert np.isfinite(apart)


def products_in_any_order(steps, generator):
    if len(steps) == 1:
        return steps[0]
    middle = generator.integers(1, len(steps))
    halves = (products_in_any_order(half, generator) for half in (steps[:middle], steps[middle:]))
    dtype = type(steps[0][0])
    return tuple(map(dtype, maps.mobius.compose(*halves)))


def turned(start, exponents):
    """p = 2**(u - d)·p, or 2**(u - d) / p where it turns: log2 of the last p, exactly."""
    log = {0.0: -np.inf, 1.0: 0, np.inf: np.inf}[start]
    for up, down, turns in exponents:
        log = up - down + (-log if turns else log)
    return log


@pytest.mark.parametrize(("dtype", "most"), [("float32", 120), ("float64", 1000)])
@pytest.mark.parametrize("start", [0.0, 1.0, np.inf])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_steps_of_any_size_keep_zero_and_infinity_in_any_order(dtype, most, start):
    generator, kind = np.random.default_rng(0), np.dtype(dtype).type
    for _ in range(30):
        exponents = [
            (*map(int, generator.integers(-most, most, 2)), generator.random() < 0.3)
            for _ in range(generator.integers(2, 60))
        ]
        steps = []
        for up, down, turns in exponents:
            x, y = 2.0**up, 2.0**down
            step = maps.mobius.lift(*((0.0, x, y, 0.0) if turns else (x, 0.0, 0.0, y)))
            steps.append(tuple(map(kind, step)))
        product = products_in_any_order(steps, generator)
        assert maps.mobius.apply(product, kind(start)) == kind(np.exp2(turned(start, exponents)))
