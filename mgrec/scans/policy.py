"""The number of processors for a recurrence: the policy of Wakatani's P-scheme/G."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

WARP = 32
MOST_THREADS = 1024


@dataclass(frozen=True)
class Configuration:
    """G thread blocks of T threads: the P = G·T processors of a P-scheme.

    Attributes
    ----------
    blocks : int
        G.
    threads : int
        T, at most 1,024.

    Examples
    --------
    >>> Configuration(blocks=132, threads=128).processors
    16896
    """

    blocks: int
    threads: int

    def __post_init__(self) -> None:
        if self.blocks < 1:
            raise ValueError(f"blocks must be at least 1; got {self.blocks}")
        if not 1 <= self.threads <= MOST_THREADS:
            raise ValueError(f"threads must be from 1 to {MOST_THREADS}; got {self.threads}")

    @property
    def processors(self) -> int:
        """P."""
        return self.blocks * self.threads


@dataclass(frozen=True)
class Constants:
    """The cost of a step in each phase, for one dtype and kind of operands on one device.

    Attributes
    ----------
    alpha : float
        Seconds in which one of few threads composes a step (precompute).
    beta : float
        Seconds in which a state is carried over one part (propagation).
    gamma : float
        Seconds in which one of few threads computes a step (determine).
    floor : float
        Seconds of a step in all phases, at the bandwidth of the memory: no number of threads
        goes below. 0 in the papers' model.
    """

    alpha: float
    beta: float
    gamma: float
    floor: float = 0.0


def predict_time(steps: int, constants: Constants, configuration: Configuration, rows: int = 1) -> float:
    """Return the seconds of the three phases: max((alpha + gamma)/P, floor)·N + beta·P.

    `steps`: n, of all rows together.
    `rows`: rows share the processors, and propagate separately: beta·P/rows.

    >>> round(predict_time(10**6, Constants(2e-8, 1e-8, 3e-8), Configuration(10, 100)), 9)
    6e-05
    """
    processors = configuration.processors
    step = max((constants.alpha + constants.gamma) / processors, constants.floor)
    return step * steps + constants.beta * processors / rows


def optimal_processors(steps: int, constants: Constants, rows: int = 1) -> float:
    """Return P_opt = sqrt((alpha + gamma)·N/beta), which minimises the time of the model.

    With a floor P is at most (alpha + gamma)/floor: more processors than saturate the memory only
    lengthen the propagation.
    """
    work = constants.alpha + constants.gamma
    optimum = sqrt(work * steps * rows / constants.beta)
    return min(optimum, work / constants.floor) if constants.floor else optimum


def choose_configuration(
    steps: int, constants: Constants, multiprocessors: int, rows: int = 1
) -> Configuration:
    """Choose G first, then T, for P_opt processors and N = `steps` of all rows together.

    There are as many blocks as multiprocessors, if each has a warp; then the number of warps of a
    block, from 1 to 32, that comes nearest to P_opt. See Wakatani's papers on P-scheme/G (2012,
    2013).
    """
    warps = min(optimal_processors(steps, constants, rows), max(steps, 1)) / WARP
    blocks = min(multiprocessors, max(int(warps), 1))
    per_block = max(1, min(round(warps / blocks), MOST_THREADS // WARP))
    return Configuration(blocks, per_block * WARP)


@dataclass(frozen=True)
class Measurement:
    """The seconds of one configuration.

    Attributes
    ----------
    configuration : Configuration
    rearranged : float
        The three phases on rearranged arrays, as the papers measure.
    whole : float
        With the transpositions of operands and results.
    """

    configuration: Configuration
    rearranged: float
    whole: float
