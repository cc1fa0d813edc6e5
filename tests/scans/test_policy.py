"""The choice of G and T for the P-scheme: the model's minimum, rounded to whole blocks."""

from __future__ import annotations

import itertools

import pytest

from mgrec.scans.policy import (
    Configuration,
    Constants,
    choose_configuration,
    optimal_processors,
    predict_time,
)

CONSTANTS = Constants(alpha=6e-8, beta=5e-9, gamma=7e-8)
BOUNDED = Constants(alpha=6e-8, beta=5e-9, gamma=7e-8, floor=6e-12)


@pytest.mark.parametrize("steps", [10**4, 2**20, 2**28])
@pytest.mark.parametrize("rows", [1, 100])
@pytest.mark.parametrize("constants", [CONSTANTS, BOUNDED], ids=["papers", "bounded"])
def test_no_number_of_processors_is_better_than_the_optimum(
    steps: int, rows: int, constants: Constants
) -> None:
    optimum = optimal_processors(steps, constants, rows)

    def time(processors: float) -> float:
        return predict_time(steps, constants, Configuration(round(processors), 1), rows)

    least = time(optimum)
    for factor in (0.3, 0.7, 0.95, 1.05, 1.5, 3):
        assert time(optimum * factor) >= least * (1 - 1e-3)


def test_the_formula_of_the_papers() -> None:
    assert optimal_processors(10**8, Constants(3e-8, 1e-8, 6e-8)) == pytest.approx(30_000)
    # Rows propagate side by side.
    assert optimal_processors(10**8, Constants(3e-8, 1e-8, 6e-8), rows=4) == pytest.approx(60_000)


@pytest.mark.parametrize("multiprocessors", [1, 14, 132])
def test_blocks_come_before_threads(multiprocessors: int) -> None:
    for steps in (0, *(2**exponent for exponent in range(31))):
        chosen = choose_configuration(steps, CONSTANTS, multiprocessors)
        assert 1 <= chosen.blocks <= multiprocessors
        assert chosen.threads in range(32, 1025, 32)
        assert chosen.threads < 96 or chosen.blocks == multiprocessors
        assert steps > 1 or chosen == Configuration(1, 32)


@pytest.mark.parametrize("multiprocessors", [14, 132])
def test_the_choice_is_near_the_best_of_all(multiprocessors: int) -> None:
    """Rounding to whole warps in every block costs little, where more than a few are at work."""
    for exponent in range(22, 31):
        steps = 2**exponent
        times = [
            predict_time(steps, BOUNDED, Configuration(blocks, 32 * warps))
            for blocks, warps in itertools.product(range(1, multiprocessors + 1), range(1, 33))
        ]
        chosen = choose_configuration(steps, BOUNDED, multiprocessors)
        assert predict_time(steps, BOUNDED, chosen) <= 1.15 * min(times)


@pytest.mark.parametrize(
    ("blocks", "threads", "message"),
    [
        (0, 32, "blocks must be at least 1; got 0"),
        (1, 0, "threads must be from 1 to 1024; got 0"),
        (1, 1025, "threads must be from 1 to 1024; got 1025"),
    ],
)
def test_a_configuration_that_no_gpu_has(blocks: int, threads: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Configuration(blocks, threads)
