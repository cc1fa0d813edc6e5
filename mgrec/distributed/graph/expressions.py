"""Dask's expression arrays (``array.query-planning``), which graphs are made of and made into.

Families and placement know arrays with graphs alone. A public function that is given expressions
gets such arrays in their place, whose only layer stands for the expression, and its results become
expressions that depend on those of its arguments::

    expression ─ as_graph ─ Awaited layer ─ … the layers of a solve … ─ as_expression ─ Solved

So Dask optimizes what comes before a recurrence together with what comes after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import dask.array as da
from dask._task_spec import Alias, convert_legacy_graph
from dask.array._array_expr._collection import Array as ExpressionArray
from dask.array._array_expr._expr import ArrayExpr
from dask.array._array_expr._io import FromGraph
from dask.array.core import Array
from dask.base import tokenize
from dask.blockwise import optimize_blockwise
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph, Layer, MaterializedLayer
from distributed import Future

__all__ = ["Array", "ExpressionArray", "are_on", "as_expression", "as_graph"]


class Awaited(Layer):  # type: ignore[misc]
    """The tasks of an expression, which are made when somebody asks for them."""

    def __init__(self, expression: ArrayExpr) -> None:
        super().__init__()
        self.expression = expression

    @cached_property
    def _tasks(self) -> dict[Any, Any]:
        """Those of the lowered expression, and the keys of the expression as it is."""
        lowered = self.expression.lower_completely()
        tasks = dict(lowered.__dask_graph__())
        name = self.expression._name
        if lowered._name != name:
            own = ((name, *key[1:]) for key in flatten(lowered.__dask_keys__()))
            tasks |= {key: Alias(key, (lowered._name, *key[1:])) for key in own}
        return tasks

    def __getitem__(self, key: Any) -> Any:
        return self._tasks[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    def is_materialized(self) -> bool:
        return "_tasks" in vars(self)

    def get_output_keys(self) -> set[Any]:
        return set(self._tasks)


class Solved(ArrayExpr):  # type: ignore[misc]
    """An array of a solve: layers of tasks over the expressions that follow as operands.

    `own` and `names` are the names of the array and of those expressions when it was built. An
    optimizer may put other expressions in their place: then all tasks get other names.
    """

    _parameters = ("layers", "own", "chunks", "_meta", "names")

    @cached_property
    def _meta(self) -> Any:
        return self.operand("_meta")

    @cached_property
    def _renamed(self) -> dict[str, str]:
        """The names that the expressions below have now, where they are others."""
        now = (each._name for each in self.dependencies())
        pairs = zip(self.operand("names"), now, strict=True)
        return {was: name for was, name in pairs if was != name}

    @cached_property
    def _name(self) -> str:
        return self._fresh(self.operand("own"))

    def _fresh(self, name: str) -> str:
        """The name of a layer of this array."""
        renamed = self._renamed
        if not renamed:
            return name
        # The words before the token say what a task does.
        words = name.rpartition("-")[0]
        return f"{words}-{tokenize(name, sorted(renamed.items()))}"

    def __dask_tokenize__(self) -> Any:
        return type(self).__name__, self._name

    def _layer(self) -> dict[Any, Any]:
        tasks = {key: task for layer in self.operand("layers") for key, task in layer.items()}
        return _named_anew(tasks, self._renamed, self._fresh) if self._renamed else tasks


def _named_anew(tasks: dict[Any, Any], renamed: dict[str, str], fresh: Any) -> dict[Any, Any]:
    """The same tasks under fresh names, over arrays of other names."""
    tasks = convert_legacy_graph(tasks, set(tasks))
    names = renamed | {name: fresh(name) for name in {_name_of(key) for key in tasks}}

    def named(key: Any) -> Any:
        return _with_name(key, names[_name_of(key)])

    renamed = {}
    for key, task in tasks.items():
        used = {at: named(at) for at in task.dependencies if _name_of(at) in names}
        renamed[named(key)] = task.substitute(used, key=named(key))
    return renamed


def _name_of(key: Any) -> str:
    return key[0] if isinstance(key, tuple) else key


def _with_name(key: Any, name: str) -> Any:
    return (name, *key[1:]) if isinstance(key, tuple) else name


def are_on() -> bool:
    """Whether this process makes expressions of Dask arrays."""
    return da.Array is ExpressionArray


def as_graph(array: ExpressionArray) -> Array:
    """An array with a graph in place of an expression."""
    expression = array.expr
    held = _held(expression)
    name = next(iter(held))[0] if held else expression._name
    layer = MaterializedLayer(held) if held else Awaited(expression)
    graph = HighLevelGraph({name: layer}, {name: set()})
    return Array(graph, name, expression.chunks, meta=expression._meta)


def _held(expression: ArrayExpr) -> dict[Any, Future]:
    """The blocks that workers hold, or are computing, by the keys that the scheduler knows.

    Dask gives the array that it persists another name.
    """
    if not isinstance(expression, (FromGraph, Solved)) or expression.dependencies():
        return {}
    tasks = expression._layer()
    if not all(isinstance(each, Future) for each in tasks.values()):
        return {}
    keys = {each.key for each in tasks.values()}
    is_one = len({_name_of(key) for key in keys}) == 1 and len(keys) == len(tasks)
    is_in_order = is_one and all(each.key[1:] == key[1:] for key, each in tasks.items())
    return {each.key: each for each in tasks.values()} if is_in_order else {}


def as_expression(array: Array) -> ExpressionArray:
    """The expression of an array with a graph, over the expressions that it awaits."""
    own = array.dask.layers[array.name]
    if isinstance(own, Awaited):
        return ExpressionArray(own.expression)
    graph = _needed(array.dask, array.name)
    awaited = {n: each for n, each in graph.layers.items() if isinstance(each, Awaited)}
    fused = optimize_blockwise(graph, keys=list(flatten(array.__dask_keys__())))
    layers = tuple(each for each in fused.layers.values() if not isinstance(each, Awaited))
    about = layers, array.name, array.chunks, array._meta, tuple(awaited)
    return ExpressionArray(Solved(*about, *(each.expression for each in awaited.values())))


def _needed(graph: HighLevelGraph, name: str) -> HighLevelGraph:
    """The layers that one of them depends on."""
    found: dict[str, Any] = {}
    queue = [name]
    while queue:
        own = queue.pop()
        if own not in found:
            found[own] = graph.dependencies[own]
            queue += found[own]
    return HighLevelGraph({own: graph.layers[own] for own in found}, found)
