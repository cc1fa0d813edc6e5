"""Functions with adjoints, for each axis and direction: calls, their adjoints, and arguments."""

from dataclasses import dataclass
from functools import partial

import numpy as np

import mgrec
from mgrec import adjoint, signal

ROWS, STEPS = 3, 9
GAPS = np.array([0.0, 1.0, 3.0, 4.0, 6.0, 7.0, 7.5, 9.0, 10.0])
MARKS = np.array([0, 0, 1, 0, 0, 0, 1, 0, 0], bool)


@dataclass(frozen=True)
class Case:
    """A call, as a function of arrays alone.

    Attributes
    ----------
    function : callable, ``(*arrays) -> result or tuple of results``
    adjoint : callable, ``(gradients, results, *arrays) -> tuple of gradients``
        Takes a tuple of gradients and a tuple of results.
    arrays : tuple
    """

    function: object
    adjoint: object
    arrays: tuple


def numbers(*shape, seed=0, is_complex=False):
    random = np.random.default_rng([seed, *shape])
    values = random.uniform(-0.9, 0.9, shape)
    return values + 1j * random.uniform(-0.9, 0.9, shape) if is_complex else values


def shape_of(axis, steps=STEPS):
    """The shape of an array with an axis of so many steps; axis 0 or 1 of two."""
    return (steps, ROWS) if axis == 0 else (ROWS, steps)


def recurrence(axis, reverse, *arrays):
    options = {"axis": axis, "reverse": reverse}
    return Case(
        partial(mgrec.linear_recurrence, **options),
        lambda g, y, *arrays: adjoint.linear_recurrence(*g, *y, *arrays, **options),
        arrays,
    )


def lfilter(axis, b, a, x, zi=None):
    return Case(
        lambda b, a, x, zi: signal.lfilter(b, a, x, axis, zi),
        lambda g, y, *arrays: adjoint.lfilter(
            g[0], y[0], *arrays[:3], axis, arrays[3], grad_zf=(*g, None)[1]
        ),
        (b, a, x, zi),
    )


def sosfilt(axis, sos, x, zi=None):
    return Case(
        lambda sos, x, zi: signal.sosfilt(sos, x, axis, zi),
        lambda g, y, *arrays: adjoint.sosfilt(
            g[0], y[0], *arrays[:2], axis, arrays[2], grad_zf=(*g, None)[1]
        ),
        (sos, x, zi),
    )


def tridiagonal(axis, periodic, *arrays, rhs_axis=None):
    options = {"axis": axis, "periodic": periodic, "rhs_axis": rhs_axis}
    return Case(
        partial(mgrec.solve_tridiagonal, **options),
        lambda g, y, *arrays: adjoint.solve_tridiagonal(*g, *y, *arrays, **options),
        arrays,
    )


def ewm(x, **options):
    return Case(
        partial(signal.ewm, **options),
        lambda g, y, x: (adjoint.ewm(*g, x, **options),),
        (x,),
    )


B, A = np.array([0.2, 0.4, -0.1]), np.array([1.25, -0.6, 0.3, 0.1])
SOS = np.array([[0.2, 0.3, 0.4, 1, 0.5, 0.2], [1, 2, 1, 1, -0.5, 0.2], [1, -1, 0.4, 1, -0.9, 0.1]])


def cases(is_complex=False):
    """All cases by name; coefficients stay real, and signals may be complex."""
    draw = partial(numbers, is_complex=is_complex)
    found = {}
    for axis in (0, 1):
        shape, rows = shape_of(axis), (ROWS,)
        for reverse in (False, True):
            arguments = draw(*shape, seed=1), draw(*shape, seed=2), draw(*rows)
            name = f"along axis {axis}{' in reverse' * reverse}"
            found[f"recurrence {name}"] = recurrence(axis, reverse, *arguments)
            found[f"constant coefficient {name}"] = recurrence(
                axis, reverse, draw(*shape_of(axis, 1)), draw(*shape), None
            )
        found[f"numbers along axis {axis}"] = recurrence(axis, False, 0.7, draw(*shape), 0.25)
        name = f"along axis {axis}"
        found[f"lfilter {name}"] = lfilter(axis, B, A, draw(*shape))
        found[f"lfilter with states {name}"] = lfilter(
            axis, B, A, draw(*shape), draw(*shape_of(axis, 3))
        )
        found[f"convolution with states {name}"] = lfilter(
            axis, B, A[:1], draw(*shape), draw(*shape_of(axis, 2))
        )
        found[f"sosfilt {name}"] = sosfilt(axis, SOS, draw(*shape))
        found[f"sosfilt with states {name}"] = sosfilt(
            axis, SOS, draw(*shape), draw(3, *shape_of(axis, 2))
        )
        for periodic in (False, True):
            diagonals = draw(*shape), draw(*shape, seed=1) + 3, draw(*shape, seed=2)
            found[f"tridiagonal{' periodic' * periodic} {name}"] = tridiagonal(
                axis, periodic, *diagonals, draw(*shape, seed=3)
            )
        found[f"right-hand sides {name}"] = tridiagonal(
            axis, False, draw(STEPS), draw(STEPS) + 3, -0.5, draw(*shape), rhs_axis=1 - axis
        )
    found["signal shorter than the filter"] = lfilter(1, B, A, draw(2, 2), draw(2, 3))
    return found


def means(xp=np):
    """Cases of exponentially weighted means; masks are arrays of a library."""
    x, gaps = numbers(ROWS, STEPS), numbers(ROWS, STEPS)
    gaps[0, 0] = gaps[1, 3:6] = gaps[2, 8] = np.nan
    options = {
        "adjusted": {"alpha": 0.3},
        "not adjusted": {"span": 3.0, "adjust": False},
        "ignoring gaps": {"com": 1.5, "ignore_na": True, "min_periods": 2},
        "of times": {"halflife": 2.0, "times": GAPS},
        "of segments": {"alpha": 0.5, "reset": xp.asarray(MARKS)},
    }
    found = {f"ewm {name}": ewm(gaps, **chosen) for name, chosen in options.items()}
    return {**found, "ewm without gaps": ewm(x.T, alpha=0.3, axis=0)}
