"""Tests of the laws of a transfer map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.algebra.transfer_map import Map, TransferMap
from ..core.arrays.validation import as_integer, as_real


def check_laws(
    transfer_map: TransferMap,
    *operands: Callable[[np.random.Generator], Any],
    state: Callable[[np.random.Generator], Any] | None = None,
    rtol: float = 1e-9,
    atol: float = 1e-12,
    samples: int = 200,
    seed: int = 0,
) -> None:
    """Test on random numbers that a transfer map obeys the laws of composition.

    Parameters
    ----------
    transfer_map : TransferMap
        Map to test.
    *operands : callable, ``(numpy.random.Generator) -> scalar``, optional
        Functions that draw the operands of ``lift``. The default draws standard normal numbers.
    state : callable, ``(numpy.random.Generator) -> state``, optional
        Function that draws a state, a tuple if the state is a tuple. The default draws a standard
        normal number.
    rtol, atol : float, optional
        Relative and absolute tolerance between two states that should be equal; 0 for exact maps.
    samples : int, optional
        Number of random triples of maps, each with a random state; at least 1.
    seed : int, optional
        Seed of the random generator.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If `samples` is below 1, `seed` is below 0, `operands` are not those of ``lift``, or the
        state is a tuple and `state` is not given.
    AssertionError
        If a law does not hold. The message has the law and the operands of the counterexample.

    Notes
    -----
    Maps are compared by their effect on states, since one map may have several forms. The laws for
    maps f, g, h that ``lift`` returns, and a state x, are::

        apply(compose(f, g), x) == apply(g, apply(f, x))
        apply(compose(compose(f, g), h), x) == apply(compose(f, compose(g, h)), x)
        apply(compose(identity, f), x) == apply(f, x) == apply(compose(f, identity), x)
        apply(identity, x) == x

    Examples
    --------
    >>> import mgrec
    >>> mgrec.check_laws(mgrec.maps.affine)

    A wrong ``compose`` raises AssertionError:

    >>> wrong = mgrec.TransferMap(
    ...     lift=lambda s, t: (s, t),
    ...     compose=lambda earlier, later: (later[0], later[0] * earlier[1] + later[1]),
    ...     apply=lambda step, w: step[0] * w + step[1],
    ...     identity=(1.0, 0.0),
    ... )
    >>> mgrec.check_laws(wrong)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: apply(compose(f, g), x) == apply(g, apply(f, x)) does not hold: ...
    """
    if not isinstance(transfer_map, TransferMap):
        raise TypeError(f"transfer_map must be a TransferMap; got {transfer_map!r}")
    samples, seed = as_integer("samples", samples), as_integer("seed", seed)
    for name, value, least in (("samples", samples, 1), ("seed", seed, 0)):
        if value < least:
            raise ValueError(f"{name} must be {least} or more; got {value}")
    rtol, atol = as_real("rtol", rtol), as_real("atol", atol)
    generator = np.random.default_rng(seed)
    count = transfer_map.lift.__code__.co_argcount
    draws = operands or (_normal,) * count
    if len(draws) != count:
        raise ValueError(f"lift takes {count} operands; got {len(draws)} functions to draw them")
    for name, draw in (
        *(("operands", draw) for draw in draws),
        ("state", _normal if state is None else state),
    ):
        if not callable(draw):
            raise TypeError(f"{name} must be drawn by functions of a generator; got {draw!r}")
    if state is None:
        _check_state(transfer_map, draws)
    with np.errstate(all="ignore"):
        for _ in range(samples):
            drawn = [tuple(draw(generator) for draw in draws) for _ in range(3)]
            x = (_normal if state is None else state)(generator)
            for law, left, right in _laws(transfer_map, [transfer_map.lift(*d) for d in drawn], x):
                if not _is_close(left, right, rtol, atol):
                    raise AssertionError(
                        f"{law} does not hold: {left} against {right} for f, g, h lifted from "
                        f"{drawn} and x = {x}"
                    )


def _check_state(transfer_map: TransferMap, draws: Sequence[Callable[..., Any]]) -> None:
    """Raise if ``apply`` takes another state than a number."""
    generator = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        step = transfer_map.lift(*[draw(generator) for draw in draws])
        try:
            is_number = not isinstance(transfer_map.apply(step, _normal(generator)), tuple)
        except (TypeError, IndexError):
            is_number = False
    if not is_number:
        raise ValueError(
            f"state must be given where the state is a tuple, as apply of {transfer_map.name} "
            f"takes it: pass state=, a function that draws one, such as "
            f"lambda generator: tuple(generator.standard_normal(2))"
        )


def _normal(generator: np.random.Generator) -> Any:
    return np.float64(generator.standard_normal())


def _laws(transfer_map: TransferMap, maps: list[Map], x: Any) -> list[tuple[str, Any, Any]]:
    compose, apply = transfer_map.compose, transfer_map.apply
    one = tuple(map(np.float64, transfer_map.identity))
    f, g, h = maps
    return [
        (
            "apply(compose(f, g), x) == apply(g, apply(f, x))",
            apply(compose(f, g), x),
            apply(g, apply(f, x)),
        ),
        (
            "compose(compose(f, g), h) == compose(f, compose(g, h))",
            apply(compose(compose(f, g), h), x),
            apply(compose(f, compose(g, h)), x),
        ),
        ("compose(identity, f) == f", apply(compose(one, f), x), apply(f, x)),
        ("compose(f, identity) == f", apply(compose(f, one), x), apply(f, x)),
        ("apply(identity, x) == x", apply(one, x), x),
    ]


def _is_close(left: Any, right: Any, rtol: float, atol: float) -> bool:
    return bool(np.allclose(left, right, rtol, atol, equal_nan=True))
