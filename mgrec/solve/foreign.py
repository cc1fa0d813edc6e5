"""Public functions of arrays of other libraries: in as what they are at home, and out again."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial, wraps
from typing import Any, Protocol, TypeVar, runtime_checkable

from ..core.arrays.interop import FromNative, NonNativeArray, library_of, result_converter
from ..distributed.expressions import leaves
from .labelled import solve_labelled

Function = TypeVar("Function", bound=Callable[..., Any])


@runtime_checkable
class HoldsArrays(Protocol):
    """An operand of mgrec that holds arrays."""

    def map_arrays(self, function: Callable[[Any], Any]) -> Any:
        """Return the same operand with what the function returns for its arrays."""


def takes_foreign(function: Function, labelled: Callable[..., Any] = solve_labelled) -> Function:
    """Let a function whose door raises NonNativeArray take arrays of other libraries.

    `labelled` calls it where these are DataArrays, as :func:`.labelled.solve_labelled` does.
    """

    @wraps(function)
    def public(*operands: Any, **options: Any) -> Any:
        try:
            return function(*operands, **options)
        except NonNativeArray as error:
            met = error
        return at_home(function, operands, options, met, labelled)

    public.labelled = labelled  # type: ignore[attr-defined]
    return public  # type: ignore[return-value]


def at_home(
    function: Callable[..., Any],
    operands: Sequence[Any],
    options: dict[str, Any],
    met: NonNativeArray,
    labelled: Callable[..., Any],
) -> Any:
    """Call a function with what arrays of other libraries are at home; its results are theirs.

    Arrays of NumPy and CuPy may stand beside those of one library, which results are of.

    Parameters
    ----------
    function : callable
        Public.
    met : NonNativeArray
        What it raised.
    labelled : callable, ``(function, operands, options) -> results``
        Calls it where the arrays are DataArrays.

    Raises
    ------
    NonNativeArray
        There is no such array where one can be taken.
    """
    libraries = filter(None, map(library_of, leaves((operands, options))))
    if {library.name for library in libraries} == {"xarray"}:
        return labelled(function, operands, options)
    passage = Passage()
    names = _names(function, len(operands))
    own = [passage.take(name, value) for name, value in zip(names, operands, strict=True)]
    count = len(passage.foreign)
    kept = {name: passage.take(name, value) for name, value in options.items()}
    if not passage.foreign:
        raise met
    for library in map(library_of, passage.foreign):
        if library and library.cast_list:
            own = [_listed(value, library.cast_list) for value in own]
            kept = {name: _listed(value, library.cast_list) for name, value in kept.items()}
    give = result_converter(passage.foreign, passage.foreign[: count or None])
    return passage.give(give, function(*own, **kept))


def _listed(value: Any, listed: Callable[[list[Any]], list[Any]]) -> Any:
    return listed(value) if isinstance(value, list) else value


@lru_cache(maxsize=256)
def _names(function: Callable[..., Any], count: int) -> tuple[str, ...]:
    """The names of a function's arguments by position, for messages."""
    found: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        is_rest = parameter.kind is parameter.VAR_POSITIONAL
        found += [name] * (count if is_rest else 1)
    return tuple((found + ["argument"] * count)[:count])


@dataclass(frozen=True)
class Passage:
    """Arguments of one call on their way in, and its results on their way out.

    Attributes
    ----------
    foreign : list
        The arrays of other libraries.
    written : list of (array, array)
        Arrays for results: at home, and as they were given.
    """

    foreign: list[Any] = field(default_factory=list)
    written: list[tuple[Any, Any]] = field(default_factory=list)

    def take(self, name: str, value: Any) -> Any:
        """An argument, or what a tuple, a list or an operand of mgrec holds, at home."""
        if isinstance(value, (tuple, list)):
            try:
                own = [self.take(name, item) for item in value]
            except RecursionError:
                raise TypeError(f"{name} must be numbers; got a list of itself") from None
            return own if isinstance(value, list) else tuple(own)
        if isinstance(value, HoldsArrays):
            return value.map_arrays(partial(self.take, name))
        array, library = value, library_of(value)
        if library is not None:
            array = library.to_native(name, value, name == "out")
            self.foreign.append(value)
        if name == "out":
            self.written.append((array, value))
        return array

    def give(self, give: FromNative, result: Any) -> Any:
        """A result, or what a tuple or a list of them holds, as the library has it."""
        if isinstance(result, (tuple, list)):
            own = [self.give(give, item) for item in result]
            return type(result)(*own) if hasattr(result, "_fields") else type(result)(own)
        if not hasattr(type(result), "__array_ufunc__") or not getattr(result, "ndim", 0):
            return result
        for array, given in self.written:
            if result is array:
                if given is not array:
                    give(array)  # The library's stream waits for CuPy's.
                return given
        return give(result)
