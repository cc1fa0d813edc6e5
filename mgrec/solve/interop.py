"""Public functions of arrays of other libraries: convert arguments to native arrays, and back."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial, wraps
from typing import Any, TypeVar

import numpy as np

from ..core.arrays.array_types import is_lazy, result_type
from ..core.arrays.interop import (
    FromNative,
    NonNativeArray,
    check_one_library,
    is_differentiated,
    is_table,
    is_tensor,
    is_traced_by_torch,
    library_of,
    result_converter,
)
from ..core.arrays.resets import replace_lengths
from ..core.arrays.series import check_labels, check_steps, is_series
from ..distributed.expressions import leaves
from ..distributed.groups.calls import as_group, call_on_group, refuse_derivatives
from .labelled import (
    by_value_of,
    has_labels,
    naming_parameters,
    refuse_labelled,
    solve_labelled,
    with_table_axis,
)
from .prepared import Call
from .rules import Rule, numpy_dtype, qualified_name, rules
from .steps import StepLabels

Function = TypeVar("Function", bound=Callable[..., Any])


def with_interop(
    function: Function, labelled: Callable[..., Any] = solve_labelled, takes_group: bool = False
) -> Function:
    """Let a function whose validation raises NonNativeArray take arrays of other libraries.

    `labelled`: calls the function with DataArrays, as :func:`.labelled.solve_labelled` does; with
      Series and DataFrames, too, if it has an attribute ``takes_series``.
    `takes_group`: whether the public function has a parameter `group`, which `function` does not
      get.
    """
    signature = public_signature(inspect.signature(function), takes_group)
    takes_lengths = "lengths" in signature.parameters

    @wraps(function)
    def public(*operands: Any, **options: Any) -> Any:
        result = redirected(public, operands, options, takes_group, takes_lengths)
        if result is not NotImplemented:
            return result
        refusal: TypeError | None = None
        if not has_differentiated(operands, options):
            try:
                return function(*operands, **options)
            except TypeError as error:
                if not needs_interop(error, operands, options):
                    raise
                refusal = error
        try:
            return call_native(function, operands, options, refusal, labelled)
        finally:
            # The exception refers to this frame: the arrays would wait for the collector of cycles.
            refusal = None

    public.labelled, public.__signature__ = labelled, signature  # type: ignore[attr-defined]
    return public  # type: ignore[return-value]


def redirected(
    function: Callable[..., Any],
    operands: Sequence[Any],
    options: dict[str, Any],
    takes_group: bool,
    takes_lengths: bool,
) -> Any:
    """Return the result of a call on a group, or of one that torch traces; or NotImplemented.

    `lengths` of the options are replaced by `reset`.
    """
    is_traced = is_traced_by_torch()
    if takes_group and (group := as_group(options.pop("group", None))) is not None:
        call_ranks = _call_on_group_untraced if is_traced else call_on_group
        return call_ranks(group, function, *operands, **options)
    if takes_lengths and "lengths" in options:
        replace_lengths(options)
    return _call_traced(function, operands, options) if is_traced else NotImplemented


def public_signature(signature: inspect.Signature, takes_group: bool) -> inspect.Signature:
    """Return a signature with `lengths` after `reset`, and `group`; calls replace both."""
    parameters, names = [*signature.parameters.values()], [*signature.parameters]
    if takes_group:
        parameters.append(_KEYWORD.replace(name="group"))
    if "reset" in names:
        parameters.insert(names.index("reset") + 1, _KEYWORD.replace(name="lengths"))
    return signature.replace(parameters=parameters)


_KEYWORD = inspect.Parameter("_", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Any")


def needs_interop(error: TypeError, operands: Sequence[Any], options: dict[str, Any]) -> bool:
    """Return whether a call that failed is repeated with native arrays."""
    return isinstance(error, NonNativeArray) or has_labels((operands, options))


def has_differentiated(operands: Sequence[Any], options: dict[str, Any]) -> bool:
    """Return whether torch or jax differentiates by an argument of a call.

    Validation reads such numbers as others, and their gradients would be lost.
    """
    if "torch" not in sys.modules and "jax" not in sys.modules:
        return False
    return any(map(is_differentiated, leaves((operands, options))))


def call_native(
    function: Callable[..., Any],
    operands: Sequence[Any],
    options: dict[str, Any],
    refusal: TypeError | None,
    labelled: Callable[..., Any],
    call: Call | None = None,
) -> Any:
    """Call a function with native arrays, and convert its results to the arguments' library.

    `refusal`: the exception of the function for these arguments. It is raised again if no argument
      that can be converted is such an array. None if an argument is differentiated.
    `labelled`, ``(function, operands, options) -> results``: calls the function if the arrays are
      DataArrays.
    `call`: the call with its signature, if torch records it.
    """
    values = [*leaves((operands, options))]
    libraries = {library.name for library in map(library_of, values) if library}
    takes_series = hasattr(labelled, "takes_series") and any(map(is_series, values))
    if libraries == {"xarray"} or takes_series:
        return labelled(function, operands, options)
    if any(map(is_tensor, values)):
        operands, options = with_lists_as_arrays(function, labelled, operands, options)
    if "torch" in libraries:
        from . import torch_operators

        operator = torch_operators.OPERATORS.get(qualified_name(function))
        if operator is not None and (
            torch_operators.needs_operator(values)
            or torch_operators.is_solved_by_address(operator, operands, options)
        ):
            if not torch_operators.takes_group(operator):
                refuse_derivatives(function.__name__)
            check_one_library(values)
            return torch_operators.call(operator, operands, options, call)
    if "jax" in libraries:
        from . import jax_callbacks

        if qualified_name(function) in rules() and jax_callbacks.is_traced(values):
            refuse_derivatives(function.__name__)
            check_one_library(values)
            return jax_callbacks.call(qualified_name(function), operands, options)
    of_steps = labelled if isinstance(labelled, StepLabels) else None
    by_value = by_value_of(labelled)
    has_table_axis = labelled is not refuse_labelled and not (of_steps and of_steps.vectors)
    if has_table_axis and any(map(is_table, values)):
        options = with_table_axis(function, operands, options, by_value)
    adapter = Adapter()
    names = _names(function, len(operands))
    native = [adapter.to_native(name, x) for name, x in zip(names, operands, strict=True)]
    native_options = {name: adapter.to_native(name, value) for name, value in options.items()}
    if not adapter.arguments and refusal is not None:
        raise refusal
    arrays = [value for _, value in adapter.arguments]
    cast = next((x.cast for x in map(library_of, arrays) if x and x.cast), None)
    if cast is not None:
        numbers = _numbers(function, labelled)
        native = [cast(x) if n in numbers else x for n, x in zip(names, native, strict=True)]
        native_options = {n: cast(x) if n in numbers else x for n, x in native_options.items()}
    data = [(name, value) for name, value in adapter.arguments if name not in by_value]
    tensors = [x for x in arrays if of_steps and is_tensor(x)]
    of_data = [value for _, value in data]
    check_one_library([*filter(is_lazy, values), *of_data, *tensors])
    if not of_data:
        check_one_library(arrays)
    (check_steps if of_steps else check_labels)(data)
    naming = naming_parameters(function)
    named = [value for name, value in data if name in naming]
    convert = result_converter(of_data or arrays, named or arrays)
    results = function(*native, **native_options)
    if of_steps and any(map(is_series, arrays)):
        of_parameters = dict(data)
        ordered = [of_parameters[n] for n in inspect.signature(function).parameters if n in of_parameters]
        return of_steps.label_rows(ordered, results)
    return adapter.from_native(convert, results)


def _numbers(function: Callable[..., Any], labelled: Callable[..., Any]) -> set[str]:
    """Return the parameters whose dtype a library determines: those that a rule has as arrays."""
    rule = rules().get(qualified_name(function))
    if isinstance(rule, Rule):
        return {*rule.inputs} - {*rule.numbers, "reset"}
    of_data = naming_parameters(function) | _OPTIONAL_DATA
    if isinstance(labelled, StepLabels):
        return of_data | {*labelled.by_value}
    return of_data - {*by_value_of(labelled)}


_TUPLES = "initial", "weights"
"""Parameters whose tuples have one array or number each for several states or directions."""
_OPTIONAL_DATA = {"initial", "zi", "rhs", "above", "left", "corner", "weights"}


def with_lists_as_arrays(
    function: Callable[..., Any],
    labelled: Callable[..., Any],
    operands: Sequence[Any],
    options: dict[str, Any],
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call of tensors; lists of numbers are arrays of their dtype.

    Numbers of a list promote this dtype as numbers of Python do.
    """
    numbers, names = _numbers(function, labelled), _names(function, len(operands))
    named = [*zip(names, operands, strict=True), *options.items()]
    arrays = [x for n, value in named if n in numbers for x in leaves(value) if hasattr(x, "dtype")]
    if not any(map(is_tensor, arrays)):
        return [*operands], options
    arrays = [x for x in arrays if getattr(x, "ndim", 0)] or arrays
    try:
        dtype = result_type([numpy_dtype(x) for x in arrays])
    except TypeError:  # a dtype that NumPy has not, which validation refuses
        return [*operands], options

    def converted(name: str, value: Any) -> Any:
        if name not in numbers or not isinstance(value, (list, tuple)):
            return value
        if isinstance(value, tuple) and name in _TUPLES:
            items = [converted(name, item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        return as_array_of(value, dtype)

    of_names = [converted(name, x) for name, x in zip(names, operands, strict=True)]
    return of_names, {name: converted(name, value) for name, value in options.items()}


def as_array_of(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a list of numbers as an array of a dtype, which they promote as numbers of Python do."""
    if any(not isinstance(leaf, (int, float, complex, np.generic)) for leaf in leaves(value)):
        return value
    try:
        number = np.asarray(value).dtype.type(0).item()
        return np.asarray(value, result_type([dtype, number]))
    except (OverflowError, TypeError, ValueError):
        return value


def _call_traced(function: Callable[..., Any], operands: Sequence[Any], options: dict[str, Any]) -> Any:
    """Call the operator of a function; return NotImplemented if it has no operator."""
    from . import torch_operators

    operator = torch_operators.OPERATORS.get(qualified_name(function))
    return NotImplemented if operator is None else torch_operators.call(operator, operands, options)


def _call_on_group_untraced(*operands: Any, **options: Any) -> Any:
    """Call a function on a group, in code that ``torch.compile`` traces."""
    from . import torch_operators

    return torch_operators.call_on_group_untraced(*operands, **options)


@lru_cache(maxsize=256)
def _names(function: Callable[..., Any], count: int) -> tuple[str, ...]:
    """Return the parameters' names of `count` positional arguments, for messages."""
    names: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        is_variadic = parameter.kind is parameter.VAR_POSITIONAL
        names += [name] * (count if is_variadic else 1)
    return tuple((names + ["argument"] * count)[:count])


@dataclass(frozen=True)
class Adapter:
    """Converts the arguments of one call to native arrays, and its results back.

    `arguments`, list of (str, array): the arrays of other libraries, before their conversion, with
      the names of their parameters.
    `outs`, list of (array, array): arrays for results: the native array and the caller's array.
    """

    arguments: list[tuple[str, Any]] = field(default_factory=list)
    outs: list[tuple[Any, Any]] = field(default_factory=list)

    def to_native(self, name: str, value: Any) -> Any:
        """Return an argument with native arrays; also inside tuples, lists and operands."""
        if isinstance(value, (tuple, list)):
            try:
                items = [self.to_native(name, item) for item in value]
            except RecursionError:
                raise TypeError(f"{name} must be numbers; got a list that contains itself") from None
            return items if isinstance(value, list) else tuple(items)
        if hasattr(type(value), "map_arrays"):
            return value.map_arrays(partial(self.to_native, name))
        array, library = value, library_of(value)
        if library is not None:
            array = library.to_native(name, value, name == "out")
            self.arguments.append((name, value))
        if name == "out":
            self.outs.append((array, value))
        return array

    def from_native(self, convert: FromNative, result: Any) -> Any:
        """Return a result, or a tuple or a list of results, as arrays of the library."""
        if isinstance(result, (tuple, list)):
            items = [self.from_native(convert, item) for item in result]
            return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
        if not isinstance(result, np.generic) and not hasattr(type(result), "__array_ufunc__"):
            return result
        for array, out in self.outs:
            if result is array:
                if out is not array:
                    convert(array)  # The library's stream waits for CuPy's.
                return out
        return convert(result)
