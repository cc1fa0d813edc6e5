"""European options by the equation of Black and Scholes (1973), many strikes side by side.

Each strike has a volatility of its own, as a smile has it, and so a matrix of its own. In time to
expiry, with the price not discounted and as a function of the forward price F = S·exp(r·T), the
equation has no drift::

    u_t = σ²/2·F²·u_FF

The payoff u(F, 0) has a kink, which steps of Crank and Nicolson alone would keep as an oscillation.
Rannacher (1984) begins with four implicit half steps, whose matrix is that of the other steps: it
is factored once in host memory. The prices are compared with the closed formula at every spot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr

import mgrec

from ..harness.command import Options, parser_of
from .arrays import OPTIONS, placed, repeat, to_host

RATE, EXPIRY = 0.05, 1.0
FARTHEST = 600.0  # forward price; six standard deviations from the highest strike
HALF_STEPS = 4


def smile(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Strikes around 100, and their volatilities."""
    strikes = np.linspace(60, 140, count)
    return strikes, 0.2 + 0.3 * np.log(strikes / 100) ** 2


def payoffs(forwards: np.ndarray, strikes: np.ndarray, option: str) -> np.ndarray:
    """Means over the cells of the grid, so that it matters little where in one a strike is."""
    gain = forwards[:, None] - strikes
    gain = gain if option == "call" else -gain
    half = (forwards[1] - forwards[0]) / 2
    in_the_cell = (gain + half) ** 2 / (4 * half)
    return np.where(np.abs(gain) < half, in_the_cell, np.maximum(gain, 0))


def half_step_rates(size: int, volatilities: np.ndarray, steps: int) -> np.ndarray:
    """What a half step in time multiplies second differences by; prices at both ends stay."""
    index = np.arange(size)[:, None]
    rates = EXPIRY / steps / 2 * (volatilities * index) ** 2 / 2
    rates[-1] = 0
    return rates


def half_step_of(rates: Any, kind: str) -> Callable[[Any], Any]:
    """An implicit half step. On a GPU a solve takes hardly longer than one with factors would."""
    matrix = -rates, 1 + 2 * rates, -rates
    if kind == "cupy":
        return partial(mgrec.solve_tridiagonal, *matrix, axis=0)
    solve: Callable[[Any], Any] = mgrec.factor_tridiagonal(*matrix, axis=0).persist().solve
    return solve


def step(half_step: Callable[[Any], Any], u: Any) -> Any:
    """One step of Crank and Nicolson: an implicit half step, and as far again."""
    return 2 * half_step(u) - u


def formula(spots: np.ndarray, strikes: np.ndarray, volatilities: np.ndarray, option: str) -> np.ndarray:
    """The prices of Black and Scholes."""
    sign = 1 if option == "call" else -1
    spots, spread = spots[:, None], volatilities * np.sqrt(EXPIRY)
    present = strikes * np.exp(-RATE * EXPIRY)
    with np.errstate(divide="ignore"):  # a spot of 0
        far = np.log(spots / present) / spread
    up, down = (ndtr(sign * (far + shift)) for shift in (spread / 2, -spread / 2))
    return sign * (spots * up - present * down)


def run(
    size: int, count: int, steps: int, kind: str, option: str, half_steps: int = HALF_STEPS
) -> tuple[np.ndarray, np.ndarray, float]:
    """Spots, prices (spots, strikes) in host memory, and the seconds of a step."""
    strikes, volatilities = smile(count)
    forwards = np.linspace(0, FARTHEST, size)
    # Dask's chunks have whole systems.
    rates = placed(half_step_rates(size, volatilities, steps), kind, 1, 2)
    half_step = half_step_of(rates, kind)
    u = placed(payoffs(forwards, strikes, option), kind, 1, 2)
    to_host(step(half_step, u))  # compiles
    ways = [half_step] * half_steps + [partial(step, half_step)] * (steps - half_steps // 2)
    found, seconds = repeat(u, ways)
    discount = np.exp(-RATE * EXPIRY)
    return forwards * discount, found * discount, seconds


def draw(spots: np.ndarray, found: np.ndarray, wanted: np.ndarray, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    near = (spots > 20) & (spots < 220)
    strikes, _ = smile(found.shape[1])
    for k in np.unique(np.linspace(0, strikes.size - 1, 5).astype(int)):
        axes[0].plot(spots[near], found[near, k], label=f"strike {strikes[k]:.0f}")
        axes[1].plot(spots[near], (found - wanted)[near, k])
    axes[0].set(title="price", xlabel="spot")
    axes[1].set(title="price − formula", xlabel="spot")
    axes[0].legend()
    figure.savefig(path)
    plt.close(figure)


OPTION: Options = {
    "--size": {"type": int, "default": 2000, "help": "spots"},
    "--strikes": {"type": int, "default": 400},
    "--steps": {"type": int, "default": 100},
    "--option": {"choices": ("call", "put"), "default": "call"},
    "--out": {"type": Path, "help": "picture of prices and their errors"},
}


def main(given: Sequence[str] | None = None) -> float:
    """Check, time and draw; returns the largest difference from the closed formula."""
    arguments = parser_of(__doc__, {**OPTIONS, **OPTION}).parse_args(given)
    size, count, option = arguments.size, arguments.strikes, arguments.option
    spots, found, seconds = run(size, count, arguments.steps, arguments.array, option)
    wanted = formula(spots, *smile(count), option)
    difference = float(np.abs(found - wanted).max())
    print(
        f"{count} {option}s at {size:,} spots by {arguments.array}: {seconds * 1e3:.1f} ms a step, "
        f"{seconds / (size * count) * 1e9:.1f} ns an unknown; largest difference from the closed "
        f"formula {difference:.1e}"
    )
    if arguments.out:
        draw(spots, found, wanted, arguments.out)
    return difference


if __name__ == "__main__":
    main()
