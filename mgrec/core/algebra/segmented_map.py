"""Segmented scans: transfer maps whose state is reset at marked steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType
from typing import Any

import numpy as np

from .transfer_map import Capabilities, TransferMap

# Each scalar has a name: neither numba nor tracing maps a function over a tuple.
_LIFT = """
def lift(reset, {starts}, {operands}):
    {maps} = inner_lift({operands})
    {states} = inner_apply(({maps}), {start})
    return reset, {maps} {lifted}
"""
_COMPOSE = """
def compose(earlier, later):
    is_earlier, is_later = earlier[0] != 0, later[0] != 0
    {maps} = inner_compose(({earlier_map}), ({later_map}))
    {states} = inner_apply(({later_map}), {earlier_state})
    return where(is_later, later[0], earlier[0]), {composed_maps} {composed_states}
"""
_APPLY = """
def apply(step, state):
    is_reset = step[0] != 0
    {states} = inner_apply(({step_map}), state)
    return {applied}
"""


@dataclass(frozen=True, eq=False)
class SegmentedMap(TransferMap):
    """A transfer map of runs of steps, with a reset of the state at marked steps.

    A map is (flag, m, y). If a step of the run is marked, the run is the constant y, which the loop
    gives from the start of the last segment. Otherwise it is m. Steps before a mark therefore have
    no effect, even if they are nan, and the states of a segment have the bits of the loop::

        compose((f, m, y), (g, n, z)) == (g or f, compose(m, n), z if g else apply(n, y))
        apply((f, m, y), x) == y if f else apply(m, x)

    ``lift`` takes the mark, the initial state, then the operands of the map.

    Attributes
    ----------
    inner : TransferMap
    states, operands : int
        Number of scalars of its state, and of operands of its ``lift``.
    """

    inner: TransferMap = field(repr=False, kw_only=True)
    states: int = field(repr=False, kw_only=True)
    operands: int = field(repr=False, kw_only=True)

    @property
    def codes(self) -> tuple[CodeType, ...]:
        return *self.inner.codes, self.lift.__code__

    def require_unchanged(self) -> None:
        """Raise unless the values that the functions of the map read are unchanged."""
        self.inner.require_unchanged()

    def __reduce__(self) -> Any:
        return segmented, (self.inner, self.states, self.operands)


@lru_cache(maxsize=256)
def segmented(transfer_map: TransferMap, states: int, operands: int) -> SegmentedMap:
    """Return a transfer map that resets its state at marked steps; see :class:`SegmentedMap`.

    Parameters
    ----------
    transfer_map : TransferMap
    states : int
        Number of scalars of its state.
    operands : int
        Number of operands of its ``lift``.

    Examples
    --------
    >>> from mgrec.core.algebra.transfer_map import affine
    >>> add = segmented(affine, states=1, operands=2)
    >>> float(add.apply(add.lift(0, 10.0, 1.0, 2.0), 5.0))
    7.0
    >>> float(add.apply(add.lift(1, 10.0, 1.0, 2.0), 5.0))
    12.0
    """
    width = len(transfer_map.identity)
    scope: dict[str, Any] = {
        "__name__": __name__,
        "inner_lift": transfer_map.lift,
        "inner_compose": transfer_map.compose,
        "inner_apply": transfer_map.apply,
        "where": np.where,
    }
    for text in (_LIFT, _COMPOSE, _APPLY):
        exec(text.format(**_substitutions(width, states, operands)), scope)
    capabilities = Capabilities(composes_cheaply=transfer_map.capabilities.composes_cheaply)
    return SegmentedMap(
        scope["lift"],
        scope["compose"],
        scope["apply"],
        (0, *transfer_map.identity, *(0,) * states),
        f"segmented_{transfer_map.name}",
        capabilities=capabilities,
        inner=transfer_map,
        states=states,
        operands=operands,
    )


def _substitutions(width: int, states: int, operands: int) -> dict[str, str]:
    """Return the parts of the templates above for each scalar of maps, states and operands."""

    def repeat(text: str, count: int) -> str:
        return "".join(f"{text.format(k=k, m=1 + k, y=1 + width + k)}, " for k in range(count))

    def state(text: str) -> str:
        return f"({repeat(text, states)})" if states > 1 else repeat(text, 1).removesuffix(", ")

    earlier_or_composed = "where(is_earlier, y{k}, later[{y}])"
    return {
        "starts": repeat("w{k}", states).removesuffix(", "),
        "operands": repeat("x{k}", operands).removesuffix(", "),
        "maps": repeat("m{k}", width),
        "states": state("y{k}"),
        "start": state("w{k}"),
        "lifted": repeat("where(reset != 0, y{k}, w{k})", states),
        "earlier_map": repeat("earlier[{m}]", width),
        "later_map": repeat("later[{m}]", width),
        "step_map": repeat("step[{m}]", width),
        "earlier_state": state("earlier[{y}]"),
        "composed_maps": repeat("where(is_later, later[{m}], m{k})", width),
        "composed_states": repeat(f"where(is_later, later[{{y}}], {earlier_or_composed})", states),
        "applied": state("where(is_reset, step[{y}], y{k})"),
    }
