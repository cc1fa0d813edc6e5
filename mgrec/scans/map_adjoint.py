"""Adjoints of scans of transfer maps, and of rational recurrences."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..core.algebra.transfer_map import DIFFERENTIABLE, TransferMap, affine
from ..core.arrays.chunk import shape_of
from ..solve.adjoint import Steps, adjoint_function, as_required, as_result, selected, sum_to
from ..solve.functions import full_like, stack, where
from ..solve.rules import Redirect, Rule, broadcast_shapes, common_dtype, rule_of_adjoint
from . import functions
from .adjoint import linear_recurrence
from .maps import mobius
from .matrix.adjoint import matrix_gradients, solve_matrices
from .matrix.maps import MatrixMap, matrix

_OPERANDS, _STATES = 12, 4
"""Most operands and states of a map for torch and jax, whose operators have one schema."""


@adjoint_function
def scan(
    grad: Any,
    states: Any,
    transfer_map: TransferMap | MatrixMap,
    *operands: Any,
    initial: Any,
    axis: int = -1,
    reverse: bool = False,
    reset: Any = None,
    of: Collection[str] | None = None,
) -> tuple[Any, ...]:
    """Return the gradients of ``states = mgrec.scan(transfer_map, *operands, initial=initial)``.

    Let f be a step of the scan, w_i = f(w_{i-1}, x_i), with the operands x_i, and J_i the
    derivative of w_i by w_{i-1}. The adjoint is a recurrence in the other direction,

        λ_i = g_i + J_{i+1}ᴴ·λ_{i+1}

    where g is the gradient of w. The gradients of x_i and of the initial state are (∂f/∂x_i)ᴴ·λ_i
    and J_1ᴴ·λ_1. `reset` is as for :func:`linear_recurrence`.

    Parameters
    ----------
    grad, states : array, or tuple of arrays
        Gradient of the result, and the result.
    transfer_map, *operands, initial, axis, reverse, reset, lengths
        Arguments of :func:`mgrec.scan`. A map of your own has its derivative as ``vjp``, see
        :class:`mgrec.TransferMap`.
    of : collection of str, optional
        Arguments whose gradients are computed: parameters of ``transfer_map.lift``, "M" and "b" of
        a matrix, and "initial". The default is all.

    Returns
    -------
    *grad_operands, grad_initial : array
        Gradients, as those of :func:`linear_recurrence`. That of `initial` is a tuple if the state
        is one.

    Raises
    ------
    NotImplementedError
        If `transfer_map` is a matrix map of companion or block-diagonal matrices.
    TypeError, ValueError
        If the map has no ``vjp``, shapes do not match, or `of` has another name; and the errors of
        :func:`mgrec.scan`.

    Notes
    -----
    Other maps of the module :mod:`mgrec.maps` have derivatives. At equal operands of a maximum each
    one has half of the gradient. States that are tuples must be real.

    *Cost.* States that are scalars take one linear recurrence, and others one scan of
    :func:`mgrec.maps.matrix`. The derivative is computed for all steps at once, by array
    operations.

    Examples
    --------
    Waiting times in a queue, of which only the busy periods have gradients:

    >>> import numpy as np, mgrec
    >>> s, queue = np.array([2.0, -1.0, -3.0, 4.0, -1.0]), mgrec.maps.max_plus
    >>> w = mgrec.scan(queue, s, 0.0, initial=0.0)
    >>> grad_s, _, _ = mgrec.adjoint.scan(np.ones(5), w, queue, s, 0.0, initial=0.0)
    >>> grad_s
    array([2., 1., 0., 2., 1.])

    A map of your own, cumulative products:

    >>> products = mgrec.TransferMap(
    ...     lift=lambda x: (x,),
    ...     compose=lambda earlier, later: (earlier[0] * later[0],),
    ...     apply=lambda step, w: step[0] * w,
    ...     identity=(1.0,),
    ...     vjp=lambda grad, w, x: (x * grad, w * grad),
    ... )
    >>> x = np.array([2.0, 3.0, 5.0])
    >>> w = mgrec.scan(products, x, initial=1.0)
    >>> mgrec.adjoint.scan(np.array([0.0, 0.0, 1.0]), w, products, x, initial=1.0)
    (array([15., 10.,  6.]), np.float64(30.0))
    """
    options: dict[str, Any] = {"axis": axis, "reverse": reverse, "reset": reset, "of": of}
    if isinstance(transfer_map, MatrixMap):
        return matrix_gradients(transfer_map, grad, states, *operands, initial=initial, **options)
    if transfer_map in (affine, mobius):
        differentiate: Any = linear_recurrence if transfer_map == affine else rational_recurrence
        return differentiate.compose(grad, states, *operands, initial, **options)
    names = _check(transfer_map, operands)
    operands = tuple(map(as_required, names, operands))
    is_several = isinstance(initial, tuple)
    of_states, states, firsts = (values if is_several else (values,) for values in (grad, states, initial))
    pairs = [as_result("states", *pair) for pair in zip(of_states, states, strict=True)]
    of_states, states = zip(*pairs, strict=True)
    firsts = tuple([as_required("initial", first) for first in firsts])
    wanted = selected(of, (*names, "initial"), (*names, "initial"))
    steps = Steps.of(states[0], axis, reverse, reset)
    before = tuple(map(steps.before, states, firsts))

    def pull_back(grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the gradients of the states before each step, and those of its operands."""
        arguments = (grads, before) if is_several else (grads[0], before[0])
        gradients = transfer_map.vjp(*arguments, *operands)  # type: ignore[misc]
        if not isinstance(gradients, tuple) or len(gradients) != 1 + len(operands):
            raise TypeError(
                f"vjp of {transfer_map.name} must return a tuple of {1 + len(operands)}, gradients "
                f"of the state and of the operands; got {gradients!r}"
            )
        of_before = gradients[0] if is_several else gradients[:1]
        return tuple(map(_full, of_before, states)), gradients[1:]

    of_before, of_operands = pull_back(_solve_adjoint(pull_back, of_states, steps))
    gradients = [
        sum_to(_full(gradient, states[0]), operand) if name in wanted else None
        for name, gradient, operand in zip(names, of_operands, operands, strict=True)
    ]
    if "initial" not in wanted:
        return *gradients, None
    of_firsts = tuple(map(sum_to, map(steps.sum_at_starts, of_before), firsts))
    return *gradients, of_firsts if is_several else of_firsts[0]


def _check(transfer_map: TransferMap, operands: Sequence[Any]) -> tuple[str, ...]:
    """Return the names of the operands; raise TypeError if a derivative is missing."""
    if transfer_map.vjp is None:
        raise TypeError(f"transfer_map must have a derivative for gradients; {transfer_map.name} has no vjp")
    return functions.operand_names(transfer_map, len(operands))


def _full(values: Any, like: Any) -> Any:
    """Return numbers, or an array that broadcasts, in the shape and the dtype of another one."""
    if shape_of(values) != like.shape:
        values = full_like(like, 0) + values
    return sum_to(values, like)


def _solve_adjoint(pull_back: Any, grads: tuple[Any, ...], steps: Steps) -> tuple[Any, ...]:
    """Return λ of all states."""
    count = len(grads)
    units = [tuple([full_like(grad, int(j == k)) for j, grad in enumerate(grads)]) for k in range(count)]
    rows = [pull_back(unit)[0] for unit in units]
    if count == 1:
        return (functions.linear_recurrence(steps.later(rows[0][0]), grads[0], **steps.backward),)
    transposed = steps.later(stack([stack(row) for row in rows]))
    options = {"initial": np.zeros(count), **steps.backward}
    states = functions.scan(matrix(count), transposed, stack(grads), **options)
    return tuple([states[..., k] for k in range(count)])


@partial(
    adjoint_function, function="mgrec.rational_recurrence", result="p", arrays=("a", "b", "c", "d", "initial")
)
def rational_recurrence(
    grad: Any,
    p: Any,
    a: Any,
    b: Any,
    c: Any,
    d: Any,
    initial: Any,
    *,
    axis: int = -1,
    reverse: bool = False,
    reset: Any = None,
    of: Collection[str] | None = None,
) -> tuple[Any, ...]:
    """Return the gradients of ``p = mgrec.rational_recurrence(a, b, c, d, initial)``.

    With y_i = c_i·p_{i-1} + d_i, the adjoint of the recurrence p_i = (a_i·p_{i-1} + b_i) / y_i is

        λ_i = g_i + λ_{i+1}·(a_{i+1}·d_{i+1} − b_{i+1}·c_{i+1}) / y_{i+1}²

    where g is the gradient of p. The gradients of a_i, b_i, c_i and d_i are λ_i·p_{i-1} / y_i,
    λ_i / y_i, −λ_i·p_i·p_{i-1} / y_i and −λ_i·p_i / y_i. `reset` is as for
    :func:`linear_recurrence`.

    Notes
    -----
    *Infinite states.* Where p_i is infinite, λ_i is the gradient of 1 / p_i, so that gradients of
    later states pass through it. The gradient of an infinite state itself must be 0, or results
    are nan.

    Examples
    --------
    >>> import numpy as np, mgrec
    >>> b = np.array([1.0, 2.0, 1.0])
    >>> p = mgrec.rational_recurrence(1.0, b, 0.0, 2.0, initial=1.0)
    >>> mgrec.adjoint.rational_recurrence(np.ones(3), p, 1.0, b, 0.0, 2.0, 1.0, of="b")[1]
    array([0.875, 0.75 , 0.5  ])
    """
    steps = Steps.of(p, axis, reverse, reset)
    before, one, zero = steps.before(p, initial), full_like(p, 1), full_like(p, 0)
    # States in homogeneous coordinates (x : y) are (p : 1), and (1 : 0) if p is infinite, where 1/p
    # takes the place of p.
    from_inf, to_inf = abs(before) == np.inf, abs(p) == np.inf
    x, y = where(from_inf, one, before), where(from_inf, zero, one)
    above, below = where(to_inf, one, p), where(to_inf, zero, one)
    with np.errstate(all="ignore"):
        size = where(to_inf, -(a * x + b * y), c * x + d * y)
        slope = where(from_inf != to_inf, b * c - a * d, a * d - b * c) / size / size
        gradient = where(to_inf & (grad != 0), np.nan * one, grad)
        adjoint = functions.linear_recurrence(steps.later(_full(slope, p)), gradient, **steps.backward)
        scaled = adjoint / size
        of_numerator, of_denominator = below * scaled, -above * scaled
        of_before = where(from_inf, zero, slope * adjoint)
        return (
            of_numerator * x,
            of_numerator * y,
            of_denominator * x,
            of_denominator * y,
            lambda: steps.sum_at_starts(of_before),
        )


def _outlines_of_rational(arguments: dict[str, Any]) -> list[tuple[Any, Any]]:
    arrays = [arguments[name] for name in ("a", "b", "c", "d")]
    shape = broadcast_shapes(*[array.shape for array in arrays])
    dtype = common_dtype(*arrays, arguments["initial"])
    return [(shape, dtype if dtype.kind == "f" else np.dtype(np.float64))]


_OPERAND_NAMES = tuple([f"operand_{k}" for k in range(_OPERANDS)])
_STATE_NAMES = tuple([f"initial_{k}" for k in range(_STATES)])


@adjoint_function
def scan_of_map(*, transfer_map: str, axis: int, reverse: bool, reset: Any, **arrays: Any) -> Any:
    """Solve a scan of a map in DIFFERENTIABLE; return several states along a last axis.

    The arrays are those of _OPERAND_NAMES and _STATE_NAMES; None is left out.
    """
    operands, states = _arrays(arrays)
    options: dict[str, Any] = {"axis": axis, "reverse": reverse, "reset": reset}
    if len(states) == 1:
        return functions.scan(DIFFERENTIABLE[transfer_map], *operands, initial=states[0], **options)
    return stack(functions.scan(DIFFERENTIABLE[transfer_map], *operands, initial=states, **options))


def _arrays(arguments: dict[str, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    operands, states = (
        tuple([arguments[name] for name in names if arguments.get(name) is not None])
        for names in (_OPERAND_NAMES, _STATE_NAMES)
    )
    return operands, states


def _outlines_of_map(arguments: dict[str, Any]) -> list[tuple[Any, Any]]:
    operands, states = _arrays(arguments)
    shape = broadcast_shapes(*[operand.shape for operand in operands])
    several = (len(states),) if len(states) > 1 else ()
    return [((*shape, *several), common_dtype(*operands, *states))]


def _gradients_of_map(
    grad: Any, grad_zf: Any, result: Any, arguments: dict[str, Any], of: Sequence[str]
) -> list[Any]:
    operands, states = _arrays(arguments)
    transfer_map, options = DIFFERENTIABLE[arguments["transfer_map"]], ("axis", "reverse", "reset")
    is_several = len(states) > 1
    if is_several:
        grad, result = (tuple([values[..., k] for k in range(len(states))]) for values in (grad, result))
    names = functions.operand_names(transfer_map, len(operands))
    wanted = [name for key, name in zip(_OPERAND_NAMES, names, strict=False) if key in of]
    *of_operands, of_states = scan.compose(  # type: ignore[attr-defined]
        grad,
        result,
        transfer_map,
        *operands,
        initial=states if is_several else states[0],
        **{name: arguments[name] for name in options},
        of=wanted if {*of}.isdisjoint(_STATE_NAMES) else [*wanted, "initial"],
    )
    of_arrays = dict(zip(_OPERAND_NAMES, of_operands, strict=False))
    of_arrays |= dict(
        zip(_STATE_NAMES, of_states if isinstance(of_states, tuple) else (of_states,), strict=False)
    )
    return [of_arrays.get(name) for name in (*_OPERAND_NAMES, *_STATE_NAMES)]


def _scan(
    transfer_map: Any, *operands: Any, initial: Any, axis: int = -1, reverse: bool = False, **options: Any
) -> Any:
    """Call :func:`mgrec.scan` for arrays that torch or jax differentiates."""
    if not isinstance(transfer_map, (TransferMap, MatrixMap)):
        raise TypeError(f"transfer_map must be a TransferMap; got {transfer_map!r}")
    options |= {"axis": axis, "reverse": reverse}
    if isinstance(transfer_map, MatrixMap):
        return solve_matrices(transfer_map, operands, initial, options)
    if transfer_map in (affine, mobius):
        names = functions.operand_names(transfer_map, len(operands))
        function = functions.linear_recurrence if transfer_map == affine else functions.rational_recurrence
        return function(**dict(zip(names, operands, strict=True)), initial=initial, **options)
    states = initial if isinstance(initial, tuple) else (initial,)
    _check(transfer_map, operands)
    if len(operands) > _OPERANDS or len(states) > _STATES:
        raise TypeError(
            f"maps have at most {_OPERANDS} operands and {_STATES} states for gradients in torch "
            f"and jax; got {len(operands)} and {len(states)}"
        )
    if axis >= 0:
        # The operator adds an axis of states.
        options["axis"] -= max(len(shape_of(operand)) for operand in operands)
    arrays = dict(zip(_OPERAND_NAMES, operands, strict=False))
    arrays |= dict(zip(_STATE_NAMES, states, strict=False))
    result = scan_of_map(transfer_map=transfer_map.key, **arrays, **options)
    if not isinstance(initial, tuple):
        return result
    return tuple([result[..., k] for k in range(len(states))])


_OPTIONS = {"axis": ("int", -1), "reverse": ("bool", False)}
RULES = [
    Redirect(functions.scan, _scan),
    rule_of_adjoint(rational_recurrence, functions.rational_recurrence, _OPTIONS, _outlines_of_rational),
    Rule(
        scan_of_map,
        _gradients_of_map,
        tuple([f"{name}?" for name in (*_OPERAND_NAMES, *_STATE_NAMES)]),
        {"transfer_map": ("str", ""), **_OPTIONS},
        _outlines_of_map,
        axes=lambda arguments: max(operand.ndim for operand in _arrays(arguments)[0]),
        constants=("reset",),
        takes_group=True,
    ),
]
