"""Transfer maps, the algebra of a recurrence: that of w = s·w + t, and maps with resets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType
from typing import Any, TypeVar

import numpy as np

from .fingerprint import fingerprint, require_unchanged, warn_of_variants

Map = tuple[Any, ...]
_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Capabilities:
    """Properties of a map beyond the laws, which kernels and placement use.

    `casts_operands`: operands may be cast to the dtype of the result before ``lift`` is called.
    `is_affine`: a map is (s, t) and applies as s·w + t. Kernels may choose the order of
      multiplications and additions.
    `redoes_rows`: a summary of floats flags rows that cannot be trusted. These rows are computed
      again step by step.
    `composes_cheaply`: ``compose`` costs as little as ``apply``, so that two threads may divide a
      long row.
    """

    casts_operands: bool = False
    is_affine: bool = False
    redoes_rows: bool = False
    composes_cheaply: bool = False


GENERAL = Capabilities()
DIFFERENTIABLE: dict[str, TransferMap] = {}
"""Maps with a derivative by their attribute ``key``, as operators of torch and jax name them.

None is removed: the compiled code of a map, which is never freed either, takes thousands of times
its memory.
"""


@dataclass(frozen=True, eq=False)
class TransferMap:
    """A family of maps ``state -> state`` that is closed under composition.

    One step of a recurrence is one map, and so is any run of steps. A chunk is therefore a few
    scalars.

    Parameters
    ----------
    lift : callable, ``(*operands at one step) -> map``
        Function that returns the map of a step, a tuple of scalars.
    compose : callable, ``(earlier, later) -> map``
        Function that composes two maps, of which ``earlier`` acts first. It is associative, and in
        general not commutative.
    apply : callable, ``(map, state) -> state``
        Function that applies a map to a state: a scalar, or a tuple of scalars.
    identity : tuple of scalars
        Map that leaves each state unchanged.
    name : str, optional
        Name in the keys of a Dask graph and in messages. The default is the name of `lift`.
    check_laws : bool, optional
        Whether to check the laws below on sampled steps of the first call, and of the first one
        with at least 128 steps, for each process and dtype. A broken law raises ``ValueError``.
        Floats may differ by 1e-6 of the largest state, integers by the effect of rounding. Pass
        False for a map whose laws hold less closely.
    vjp : callable, ``(grad, state, *operands) -> (grad_state, *grad_operands)``, optional
        Derivative of a step, for gradients: the vector-Jacobian product. From the gradient of the
        next state, the state before it and the operands it returns the gradients of these. All are
        arrays with all steps. States that are tuples have gradients that are tuples.
    capabilities : Capabilities, optional
        Declarations of the ready-made maps that make them faster. Do not set them for your own
        maps.

    Notes
    -----
    The laws, which :func:`mgrec.check_laws` tests::

        compose(compose(f, g), h) == compose(f, compose(g, h))
        compose(identity, f) == f == compose(f, identity)
        apply(compose(f, g), x) == apply(g, apply(f, x))

    *Functions.* The three functions are plain Python on scalars: arithmetic and NumPy ufuncs
    (``np.maximum``, ``np.where``, ...). The CPU runs these functions, compiled. They must be pure.
    Values that they read from modules (``K``, or ``cfg.K``) and closures are read once, at
    compilation. After such a value has changed, create a new map. Write attributes of modules and
    classes by name: a function with ``cfg.J`` and ``getattr(cfg, "K")`` is not compiled again after
    a change of ``K``.

    *Constants.* A map with other numbers in its closure is another map. It takes seconds to compile
    and some 5 MB, which numba never frees. Pass numbers that change from call to call as operands:
    a scalar stays a scalar and costs no memory. With ``lift=lambda x, rate: (rate * x,)`` a loop
    over ``mgrec.scan(one, x, rate, initial=0.0)`` compiles once. After 32 maps with the same code
    and other numbers a ``UserWarning`` is issued, and the CPU code of further maps is not stored on
    disk. mgrec caches the functions of the 256 maps used last; numba does not free the memory of
    older ones.

    Examples
    --------
    The maximum so far:

    >>> import numpy as np, mgrec
    >>> running_max = mgrec.TransferMap(
    ...     lift=lambda x: (x,),
    ...     compose=lambda earlier, later: (np.maximum(earlier[0], later[0]),),
    ...     apply=lambda largest, state: np.maximum(largest[0], state),
    ...     identity=(-np.inf,),
    ... )
    >>> mgrec.scan(running_max, np.array([1.0, 3.0, 2.0]), initial=0.0)
    array([1., 3., 3.])
    """

    lift: Callable[..., Map]
    compose: Callable[[Map, Map], Map]
    apply: Callable[[Map, Any], Any]
    identity: Map
    name: str = ""
    check_laws: bool = field(default=True, repr=False, kw_only=True)
    vjp: Callable[..., tuple[Any, ...]] | None = field(default=None, repr=False, kw_only=True)
    capabilities: Capabilities = field(default=GENERAL, repr=False, kw_only=True)
    fingerprint: str = field(init=False, repr=False)
    key: str = field(init=False, repr=False, default="")

    def __post_init__(self) -> None:
        for role in ("lift", "compose", "apply"):
            function = getattr(self, role)
            if not hasattr(function, "__code__"):
                raise TypeError(
                    f"{role} must be a plain Python function, so that it can be compiled; got {function!r}"
                )
        if not isinstance(self.identity, tuple):
            raise TypeError(f"identity must be a tuple of scalars, as each map is; got {self.identity!r}")
        if not isinstance(self.check_laws, bool):
            raise TypeError(f"check_laws must be True or False; got {self.check_laws!r}")
        if not isinstance(self.name, str):
            raise TypeError(f"name must be a string; got {self.name!r}")
        if not (self.vjp is None or callable(self.vjp)):
            raise TypeError(f"vjp must be a function or None; got {self.vjp!r}")
        if not self.name:
            name = self.lift.__name__.strip("_<>").removesuffix("_lift")
            object.__setattr__(self, "name", name)

        object.__setattr__(self, "fingerprint", fingerprint(*self._definition))
        warn_of_variants("TransferMap", self.codes, self.fingerprint)
        if self.vjp is not None:
            object.__setattr__(self, "key", f"{self.fingerprint}/{len(DIFFERENTIABLE)}")
            DIFFERENTIABLE[self.key] = self

    @property
    def codes(self) -> tuple[CodeType, ...]:
        """Code objects of the functions, without the values that they read."""
        return self.lift.__code__, self.compose.__code__, self.apply.__code__

    def redoes_rows_of(self, dtype: np.dtype[Any]) -> bool:
        """Return whether summaries of this dtype flag rows that must be computed again."""
        return self.capabilities.redoes_rows and dtype.kind in "fc"

    @property
    def _definition(self) -> tuple[Any, ...]:
        return self.lift, self.compose, self.apply, self.identity

    def require_unchanged(self) -> None:
        """Raise unless the values that the functions read are unchanged since the map was made."""
        require_unchanged("TransferMap", self.fingerprint, *self._definition)

    # Maps that compute the same are equal: a map that a worker unpickles uses compiled code.
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TransferMap):
            return False
        return (self.fingerprint, self.capabilities) == (other.fingerprint, other.capabilities)

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __dask_tokenize__(self) -> tuple[str, ...]:
        return ("mgrec.TransferMap", self.fingerprint, repr(self.capabilities))


def rare(function: _Function) -> _Function:
    """Mark a function that few steps call: kernels on a CPU do not inline it."""
    function.__dict__["is_rare"] = True
    return function


def _affine_lift(s: Any, t: Any) -> Map:
    return s, t


def _affine_compose(earlier: Map, later: Map) -> Map:
    s, t = later
    return s * earlier[0], s * earlier[1] + t


def _affine_apply(step: Map, w: Any) -> Any:
    s, t = step
    return s * w + t


affine = TransferMap(
    _affine_lift,
    _affine_compose,
    _affine_apply,
    (1, 0),
    "affine",
    check_laws=False,
    capabilities=Capabilities(casts_operands=True, is_affine=True, redoes_rows=True, composes_cheaply=True),
)


def _signed_lift(s: Any, t: Any) -> Map:
    return s, np.where(s + s == s, s, np.sign(s)), t


def _signed_compose(earlier: Map, later: Map) -> Map:
    s, sign, _ = later
    return s * earlier[0], sign * earlier[1], _signed_apply(later, earlier[2])


def _signed_apply(step: Map, w: Any) -> Any:
    s, sign, t = step
    return np.where(w + w == w, sign, s) * w + t


signed_affine = TransferMap(
    _signed_lift,
    _signed_compose,
    _signed_apply,
    (1, 1, 0),
    "affine",
    check_laws=False,
    capabilities=Capabilities(casts_operands=True, composes_cheaply=True),
)
"""The map of a real w = s·w + t whose states of 0 and inf are those of the loop.

In addition to the product of the coefficients s, which may overflow or underflow, it holds the
product of their signs, in which 0, inf and nan are kept. States of 0 and inf are multiplied by the
signs.
"""


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

    `states`, `operands`: number of scalars of its state, and of operands of its ``lift``.
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
