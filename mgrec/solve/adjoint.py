"""Arithmetic that adjoints share, for arrays of NumPy, CuPy, Dask, torch and jax."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from inspect import Parameter, cleandoc, signature
from itertools import takewhile
from math import prod
from typing import Any, ParamSpec

import numpy as np

from ..core.algebra.coefficient import Coefficient
from ..core.arrays.array_types import (
    WIDE,
    as_native,
    cast,
    chunked_like,
    in_one_memory,
    is_lazy,
    is_narrow,
    without_empty_chunks,
)
from ..core.arrays.chunk import has_unknown_sizes, shape_of
from ..core.arrays.interop import library_of, require_native, result_converter
from ..core.arrays.resets import as_reset, with_all_axes
from ..core.arrays.validation import as_array, as_axis, as_flag, broadcasts_to
from ..core.backends import CPU, backend_of
from ..distributed.expressions import accepts_expressions, function_of_graphs, leaves
from ..distributed.groups.ends import edge_of, is_constant, is_first_part
from .functions import broadcast_to, concatenate, full_like, where
from .interop import with_interop
from .labelled import refuse_labelled

Arguments = ParamSpec("Arguments")
VAR_POSITIONAL = Parameter.VAR_POSITIONAL
_STATES = ("initial", "zi", "grad_zf")


def _refuse(function: Any, operands: Sequence[Any], options: Any) -> Any:
    """Raise TypeError for DataArrays; DataFrames have the axes of the data."""
    return refuse_labelled(function, operands, options)


def adjoint_function(
    differentiate: Callable[Arguments, Any],
    function: str = "",
    result: str = "",
    arrays: Sequence[str] = (),
    labelled: Callable[..., Any] = _refuse,
) -> Callable[Arguments, Any]:
    """Make the public adjoint of a function from its mathematics.

    The adjoint takes native arrays, and other arrays without differentiation. Its attribute
    ``compose`` also computes with arrays of torch and jax that are being differentiated.

    `differentiate`: function with the signature of the adjoint. It gets checked arguments, and
      returns the gradients of `arrays` as :func:`summed` takes them: before they are summed over
      axes that were broadcast. Sections that adjoints share are added to its docstring.
    `result`: parameter whose shape the gradient ``grad`` has. The default is none, for a function
      without second derivatives.
    `arrays`: parameters with gradients. By default `differentiate` checks its arguments, and
      returns what the adjoint returns.
    `labelled`: it is called with DataArrays.
    """
    parameters = signature(differentiate).parameters
    fixed = list(takewhile(lambda name: parameters[name].kind != VAR_POSITIONAL, parameters))
    compose = _checked(differentiate, function, result, arrays) if arrays else differentiate
    if arrays and differentiate.__doc__:
        names = [*parameters]
        differentiate.__doc__ = _documented(differentiate.__doc__, function, result, names, arrays)

    @accepts_expressions
    @wraps(differentiate)
    def native(*operands: Arguments.args, **options: Arguments.kwargs) -> Any:
        values = [*leaves((operands, options))]
        for value in values:
            require_native("an argument", value)
        if any(map(is_lazy, values)):
            operands, options = _without_empty_chunks((operands, options))
        if operands and backend_of(operands[0]) is not CPU:
            return compose(*_with_states(fixed, operands), **_moved_states(operands[0], options))
        return compose(*operands, **options)

    public = with_interop(native, labelled)
    public.compose, public.arrays = compose, arrays  # type: ignore[attr-defined]
    return public


def _checked(
    differentiate: Callable[..., Any], function: str, result: str, arrays: Sequence[str]
) -> Callable[..., Any]:
    """Return an adjoint that checks its arguments, and sums gradients to the arguments' shapes."""
    parameters = signature(differentiate).parameters
    positional = [name for name, x in parameters.items() if x.kind is Parameter.POSITIONAL_OR_KEYWORD]
    required = {name for name, x in parameters.items() if x.default is Parameter.empty}
    returns_tuple = "of" in parameters

    def compose(*operands: Any, **options: Any) -> Any:
        arguments: dict[str, Any] = dict(zip(positional, operands, strict=False))
        arguments.update(options)
        if len(arguments) < len(operands) + len(options) or not required <= arguments.keys():
            signature(differentiate).bind(*operands, **options)  # raises TypeError
        present = {}
        for name in arrays:
            value = arguments.get(name)
            if value is not None or name in required:
                present[name] = arguments[name] = as_required(name, value)
        if result:
            arguments["grad"], arguments[result] = as_result(result, arguments["grad"], arguments[result])
        else:
            arguments["grad"] = _as_only_gradient(function, arguments["grad"])
        wanted = {*present}
        if returns_tuple:
            wanted = arguments["of"] = selected(arguments.get("of"), present, arrays)
        gradients = summed(dict(zip(arrays, differentiate(**arguments), strict=True)), present, wanted)
        return gradients if returns_tuple else gradients[0]

    return compose


_SECTIONS = """\
Parameters
----------
{parameters}

Returns
-------
{gradients} : array
    Gradients, of the shapes and dtypes of the arguments: summed over axes that were broadcast. The
    gradient of integers or of a number has the dtype of the computation.{of_others}

Raises
------
TypeError, ValueError
    If shapes do not match{of_names}; and the errors of :func:`{function}`.

"""
"""Sections that the docstrings of adjoints share."""


def _documented(doc: str, function: str, result: str, names: Sequence[str], arrays: Sequence[str]) -> str:
    """Return the docstring of an adjoint with the shared sections before its notes or examples."""
    described = [("grad : array", "Gradient of the result.")]
    if result not in ("", *arrays):
        described.append((f"{result} : array", "Result."))
    further = ("grad", "grad_zf", "of", *({result} - {*arrays}))
    others = [name for name in names if name not in further] + ["lengths"] * ("reset" in names)
    described.append((", ".join(others), f"Arguments of :func:`{function}`."))
    if "grad_zf" in names:
        described.append(("grad_zf : array, optional", "Gradient of the final states. The default is 0."))
    if "of" in names:
        quoted = ", ".join(f'"{name}"' for name in arrays)
        of = "Arguments whose gradients are computed. The default is all that are given."
        described.append((f"of : collection of {{{quoted}}}, optional", of))
    sections = _SECTIONS.format(
        parameters="\n".join(f"{name}\n    {text}" for name, text in described),
        gradients=", ".join(f"grad_{name}" for name in arrays),
        function=function,
        of_others=" None for an argument that\n    is not given, or not in `of`." if "of" in names else "",
        of_names=", or `of` has another name" if "of" in names else "",
    )
    doc = cleandoc(doc)
    start = min(k for title in ("Notes\n---", "Examples\n---") if (k := doc.find(title)) >= 0)
    return doc[:start] + sections + doc[start:]


def _with_states(names: Sequence[str], operands: Any) -> Any:
    """Return operands with states in the memory of the first one; `names` are the first names."""
    named = dict(zip(names, operands, strict=False))
    return *_moved_states(operands[0], named).values(), *operands[len(named) :]


def _moved_states(grad: Any, arguments: Any) -> Any:
    """Return arguments with states in the memory of `grad`."""
    return {k: _moved(grad, k, value) if k in _STATES else value for k, value in arguments.items()}


def _moved(grad: Any, name: str, value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple([_moved(grad, name, state) for state in value])
    return in_one_memory([("grad", grad)], [(name, value)])[0]


def _without_empty_chunks(value: Any) -> Any:
    """Return arguments without empty chunks of Dask arrays, which Dask may reverse to nothing.

    Arrays without elements have one chunk: Dask (2026.7) does not sum several that are all empty.
    """
    if isinstance(value, tuple):
        return tuple(map(_without_empty_chunks, value))
    if isinstance(value, dict):
        return {name: _without_empty_chunks(item) for name, item in value.items()}
    if not is_lazy(value):
        return value
    if 0 in value.shape and not has_unknown_sizes([value.shape]):
        nothing = np.empty_like(value._meta, shape=value.shape)
        return function_of_graphs("from_array")(nothing, chunks=-1)
    return without_empty_chunks(value)


def as_required(name: str, value: Any) -> Any:
    """Return an operand as an array; numbers, and arrays of other libraries, unchanged."""
    if type(value) is np.ndarray and value.dtype.char in "fd" and value.ndim:
        return as_native(value)
    if library_of(value):
        return value
    if isinstance(value, Coefficient):
        raise TypeError(f"{name} must be an array or a number; got a Coefficient, which has no gradient")
    array = as_array(name, value, takes_bfloat16=True)
    if not hasattr(array, "dtype"):
        return array
    if array.dtype.char == "?":
        array = cast(array, np.dtype(np.int8))
    # CuPy combines its arrays with NumPy's numbers, but not with 0-d arrays.
    return array[()] if type(array) is np.ndarray and not array.ndim else array


def as_result(name: str, grad: Any, result: Any) -> tuple[Any, Any]:
    """Return the gradient of a result, and the result, as arrays; raise if their shapes differ."""
    grad, result = as_required("grad", grad), as_required(name, result)
    check_same_shape("grad", grad, name, result)
    return grad, result


def _as_only_gradient(function: str, grad: Any) -> Any:
    """Return the gradient of the result of a function without second derivatives, as an array.

    Raise NotImplementedError if torch or jax differentiates its adjoint.
    """
    if (library := library_of(grad)) is not None:
        raise NotImplementedError(
            f"{function} has no second derivatives in {library.name}; mgrec.adjoint has first ones"
        )
    return as_required("grad", grad)


def check_same_shape(name: str, array: Any, other_name: str, other: Any) -> None:
    """Raise ValueError unless two arrays have one shape."""
    shape, wanted = shape_of(array), shape_of(other)
    if shape != wanted and not (broadcasts_to(shape, wanted) and broadcasts_to(wanted, shape)):
        raise ValueError(f"{name} must have the shape of {other_name}, {wanted}; got {shape}")


def widened(values: Any) -> Any:
    """Return arrays of float16 and bfloat16 as float32; arrays of torch and jax unchanged."""
    is_array = not (values is None or library_of(values)) and hasattr(values, "dtype")
    return cast(values, WIDE) if is_array and is_narrow(values.dtype) else values


def is_complex(values: Any) -> bool:
    """Return whether numbers or arrays of any library are complex."""
    dtype = getattr(values, "dtype", None)
    if dtype is None:
        return isinstance(values, complex)
    return getattr(dtype, "kind", "") == "c" or bool(getattr(dtype, "is_complex", False))


def conj(values: Any) -> Any:
    """Return the complex conjugate; real values are returned unchanged."""
    if not is_complex(values):
        return values
    # DLPack does not export the conjugates of torch that are computed later.
    name = "conj_physical" if hasattr(type(values), "conj_physical") else "conj"
    return getattr(values, name)() if hasattr(values, name) else values.conjugate()


def along(values: Any, ndim: int, axis: int) -> int | None:
    """Return the axis of an operand that is `axis` of `ndim` axes; None if it is constant there."""
    shape = shape_of(values)
    axis_of_array = axis - ndim + len(shape)
    return None if axis_of_array < 0 or is_constant(shape[axis_of_array]) else axis_of_array


def with_axis(initial: Any, w: Any, axis: int, name: str = "initial") -> Any:
    """Return states before the first step with an axis of length 1, where w has its `axis`."""
    shape, rows_shape = shape_of(initial), (*w.shape[:axis], *w.shape[axis + 1 :])
    if not shape:
        return initial
    if not broadcasts_to(shape, rows_shape):
        raise ValueError(f"{name} must broadcast to {tuple(rows_shape)}, all rows; got {shape}")
    full_shape = (1,) * (w.ndim - 1 - len(shape)) + shape
    rows = initial.reshape((*full_shape[:axis], 1, *full_shape[axis:]))
    return rows if library_of(w) else backend_of(w).from_host(rows, w)


def along_steps(grad: Any, model: Any, states: Any) -> tuple[Any, Any]:
    """Return the gradients of rows at all steps, and a mask of the first step of each sequence.

    `model` has the shape of steps and rows, its axis, and the marks of all first steps but the
    first one, or None. `states` (..., numbers) are those of all steps.
    """
    shape, axis = model.shape, model.axis
    start = 0 if is_first_part(1) else -1
    first = (np.arange(shape[axis]) == start).reshape(-1, *[1] * (len(shape) - 1 - axis))
    first = backend_of(states).from_host(first, states)
    if model.marks is not None:
        first = (model.marks != 0) | first
    like = states[..., 0]
    return full_like(like, 0) + with_axis(grad, like, axis, "grad"), first


@dataclass(frozen=True)
class Steps:
    """The steps of a recurrence with the states w, for its adjoint, which goes back in time.

    `forward`, {1, -1}: -1 if the recurrence runs in reverse.
    `marks`: mask of the steps at which states are reset, with all axes of w.
    """

    axis: int
    forward: int
    marks: Any

    @classmethod
    def of(cls, w: Any, axis: Any, reverse: Any, reset: Any) -> Steps:
        """Return the steps of a call: of the arguments of :func:`mgrec.linear_recurrence`.

        `reset` may be an array of any library.
        """
        axis, reverse = as_axis(axis, w.shape), as_flag("reverse", reverse)
        marks = None if reset is None else _marks_of(reset, w, axis, reverse)
        return cls(axis, -1 if reverse else 1, marks)

    @property
    def of_vectors(self) -> Steps:
        """The steps of states that are vectors along a further axis, the last one."""
        return self if self.marks is None else replace(self, marks=self.marks[..., None])

    @property
    def backward(self) -> dict[str, Any]:
        """Options of the adjoint recurrence, which is reset before each marked step."""
        marks = None if self.marks is None else self.later(self.marks)
        return {"axis": self.axis, "reverse": self.forward == 1, "reset": marks}

    def later(self, values: Any) -> Any:
        """Return the values of the step after each step."""
        return shifted(values, self.axis, self.forward)

    def before(self, w: Any, initial: Any) -> Any:
        """Return the state before each step: `initial`, or 0, at the first step and at marks."""
        first = None if initial is None else with_axis(initial, w, self.axis)
        before = shifted(w, self.axis, -self.forward, first)
        if self.marks is None:
            return before
        zero = full_like(w, 0)
        return where(self.marks, zero if first is None else zero + first, before)

    def first(self, values: Any, axis: int | None = None) -> Any:
        """Return the values of steps before which a state may be `initial`, along an axis of length 1."""
        if self.marks is not None:
            return values
        start, stop = (0, 1) if self.forward == 1 else (-1, None)
        return part(values, self.axis if axis is None else axis, start, stop)

    def sum_at_starts(self, values: Any) -> Any:
        """Return the sum along the axis of the values of :meth:`first` at starts of sequences.

        The first step may be of another rank.
        """
        axis, total = self.axis, at_start(values, self.axis, self.forward)
        if self.marks is None:
            return total
        marks = self.marks
        if is_first_part(self.forward):
            others = (1, None) if self.forward == 1 else (None, -1)
            values, marks = part(values, axis, *others), part(marks, axis, *others)
        return total + where(marks, values, full_like(values, 0)).sum(axis)


def _marks_of(reset: Any, like: Any, axis: int, reverse: bool) -> Any:
    """Return a mask of the steps at which states are reset, with the axes of `like`."""
    if library_of(reset) is None:
        marks = as_reset(reset, like.shape, axis, reverse, [("the result", like)]) != 0
    else:
        marks = with_all_axes(reset, like.shape, axis)
        if "bool" not in str(marks.dtype):
            step, edge = (1, (-1, None)) if reverse else (-1, (0, 1))
            marks = marks != shifted(marks, axis, step, part(marks, axis, *edge))
    shape = [*marks.shape]
    shape[axis] = like.shape[axis]
    return broadcast_to(marks, tuple(shape))


def part(values: Any, axis: int, start: int | None, stop: int | None) -> Any:
    """Return the elements from `start` to `stop` along an axis."""
    return values[(slice(None),) * axis + (slice(start, stop),)]


def at_start(values: Any, axis: int, forward: int) -> Any:
    """Return the elements of the first step, or of the last one if `forward` is -1.

    They are 0 if there are no steps, or if that step is of another rank.
    """
    if not values.shape[axis]:
        return values.sum(axis)
    if not is_first_part(forward):
        values = full_like(values, 0)
    return values[(slice(None),) * axis + (0 if forward == 1 else -1,)]


def shifted(values: Any, axis: int, step: int, edge: Any = None) -> Any:
    """Return the element `step` (1 or -1) further along an axis, for each element.

    `edge` has length 1 along the axis, and is the element after the last, or before the first, of
    all ranks. The default is 0.
    """
    edge = edge_of(values, axis, step, edge)
    kept = part(values, axis, 1, None) if step == 1 else part(values, axis, None, -1)
    zero = full_like(part(values, axis, 0, 1), 0)
    edge = zero if edge is None else zero + edge
    pieces = [kept, edge] if step == 1 else [edge, kept]
    return chunked_like(concatenate(pieces, axis), values)


def times_shifted(
    factor: Any, values: Any, axis: int, step: int, edge: Any = None, beyond: Any = None
) -> Any:
    """Return ``factor * conj(shifted(values, axis, step, edge))``, without a shifted copy.

    `beyond` is the element of another rank beyond this part, if it is known; it is not read at the
    end of all parts.
    """
    if is_lazy(factor) or is_lazy(values) or library_of(factor) is not None:
        return factor * conj(shifted(values, axis, step, edge))
    if beyond is None:
        edge = edge_of(values, axis, step, edge)
    elif not is_first_part(-step):
        edge = beyond
    product = np.empty_like(factor, dtype=np.result_type(factor, values), order="C")
    kept, sources, last = (
        ((None, -1), (1, None), (-1, None)) if step == 1 else ((1, None), (None, -1), (0, 1))
    )
    if (
        factor.size
        and factor.shape == values.shape
        and factor.flags.c_contiguous
        and values.flags.c_contiguous
    ):
        # Flat arrays, whose shift crosses the ends of rows.
        shift = -step * prod(factor.shape[axis + 1 :])
        backend_of(factor).multiply_shifted(
            factor.reshape(-1), conj(values).reshape(-1), product.reshape(-1), shift
        )
    else:
        np.multiply(
            part(factor, axis, *kept), conj(part(values, axis, *sources)), out=part(product, axis, *kept)
        )
    of_edge = 0 if edge is None else widened(part(factor, axis, *last)) * conj(widened(edge))
    part(product, axis, *last)[...] = of_edge if edge is None else cast(of_edge, product.dtype)
    return product


def inner(factor: Any, values: Any) -> Any:
    """Return the sum of ``factor * conj(values)`` over all elements."""
    return (factor * conj(values)).sum()


def sum_of_outer_products(rows: Any, columns: Any, matrices: Any) -> Any:
    """Return the gradient of matrices from vectors λ and w of all steps: λ_i·w_jᵀ, summed."""
    if matrices.ndim > 2:
        return sum_to(rows[..., None] * columns[..., None, :], matrices)
    rows, columns = (values.reshape(-1, values.shape[-1]) for values in (rows, columns))
    return sum_to(rows.swapaxes(0, 1) @ columns, matrices)


def as_library_of(array: Any, native: Any) -> Any:
    """Return a native array as an array of the library of another one."""
    if library_of(array) is None:
        return native
    return result_converter([array], [array])(native)


def from_host(numbers: Any, like: Any) -> Any:
    """Return numbers of a NumPy array as an array of the library, and in the memory, of another."""
    if library_of(like) is None:
        return backend_of(like).from_host(numbers, like)
    converted = numbers if library_of(numbers) else as_library_of(like, numbers)
    return converted.to(like.device) if hasattr(converted, "to") else converted


def summed(gradients: dict[str, Any], operands: dict[str, Any], wanted: Collection[str]) -> tuple[Any, ...]:
    """Return gradients summed to the shapes of operands; None for names that are not wanted."""
    return tuple(
        [
            sum_to(gradient() if callable(gradient) else gradient, operands[name]) if name in wanted else None
            for name, gradient in gradients.items()
        ]
    )


def sum_to(gradient: Any, operand: Any) -> Any:
    """Return the gradient of an operand from that of its broadcast form.

    It has the shape of the operand, is real if the operand is, and has its dtype unless that is of
    integers.
    """
    shape, dtype = shape_of(operand), getattr(operand, "dtype", None)
    if gradient.shape == shape and gradient.dtype == dtype:
        return gradient
    if is_complex(gradient) and not is_complex(operand):
        gradient = gradient.real
    added = gradient.ndim - len(shape)
    if added:
        gradient = widened(gradient).sum(axis=tuple(range(added)))
    expanded = [k for k, size in enumerate(shape) if size == 1 and gradient.shape[k] != 1]
    if expanded:
        gradient = widened(gradient)
        gradient = gradient.sum(axis=tuple(expanded), keepdims=True)
    dtype = gradient.dtype if dtype is None else dtype
    is_inexact = getattr(dtype, "kind", "f") in "fcV" and getattr(dtype, "is_floating_point", True)
    if dtype == gradient.dtype or not (is_inexact or is_complex(operand)):
        return gradient
    return (
        gradient.to(dtype) if library_of(gradient) and hasattr(gradient, "to") else (gradient.astype(dtype))
    )


def selected(of: Collection[str] | None, present: Collection[str], names: Sequence[str]) -> set[str]:
    """Return the names of arguments whose gradients are computed: those of `of` that are present."""
    if of is None:
        return {*present}
    try:
        wanted = {of} if isinstance(of, str) else {*of}
    except TypeError:  # not a sequence of names
        wanted = {""}
    if not wanted <= {*names}:
        raise ValueError(f"of must be names among {', '.join(names)}; got {of!r}")
    return wanted & {*present}
