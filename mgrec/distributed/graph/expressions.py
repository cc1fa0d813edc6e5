"""Conversion between expression arrays and graphs.

Expressions are those of Dask (``array.query-planning``) and of the package dask-array. The rest of
the package uses arrays with graphs only. If a public function gets expressions, each becomes an
array whose only layer computes the expression. Its results become expressions that depend on those
of its arguments::

    expression ─ as_graph ─ Awaited layer ─ … the layers of a solve … ─ as_expression ─ Solved

Dask thus optimizes the expressions before and after a recurrence together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from typing import Any

from dask._task_spec import Alias, convert_legacy_graph
from dask.array.core import Array
from dask.base import tokenize
from dask.blockwise import optimize_blockwise
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph, Layer, MaterializedLayer
from distributed import Future

_HOMES = {
    "dask": [f"dask.array._array_expr.{name}" for name in ("_collection", "_expr", "_io")],
    "dask_array": [f"dask_array.{name}" for name in ("_collection", "_expr", "io._from_graph")],
}
"""Modules of arrays, of expressions, and of expressions of persisted arrays."""


class Awaited(Layer):  # type: ignore[misc]
    """The tasks of an expression, which are built when they are read."""

    def __init__(self, expression: Any) -> None:
        super().__init__()
        self.expression = expression

    @cached_property
    def _tasks(self) -> dict[Any, Any]:
        """Tasks of the lowered expression, and aliases for the keys of the expression."""
        lowered = self.expression.lower_completely()
        tasks = dict(lowered.__dask_graph__())
        name = self.expression._name
        if lowered._name != name:
            keys = ((name, *key[1:]) for key in flatten(lowered.__dask_keys__()))
            tasks |= {key: Alias(key, (lowered._name, *key[1:])) for key in keys}
        return tasks

    def __getitem__(self, key: object) -> Any:
        return self._tasks[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    def is_materialized(self) -> bool:
        return "_tasks" in vars(self)

    def get_output_keys(self) -> set[Any]:
        return set(self._tasks)


class SolvedExpression:
    """An array of a solve: layers of tasks over the expressions that follow as operands.

    A library's class of expressions is the second base class.

    `array_name` and `names` are the names of the array and of those expressions when it was built.
    An optimizer may replace the expressions: then all tasks get new names.
    """

    _parameters = ("layers", "array_name", "chunks", "_meta", "names")
    operand: Any
    dependencies: Any

    @cached_property
    def chunks(self) -> Any:
        return self.operand("chunks")

    @cached_property
    def _meta(self) -> Any:
        return self.operand("_meta")

    @cached_property
    def _renamed(self) -> dict[str, str]:
        """The new names of the expressions below that an optimizer has replaced."""
        current = (expression._name for expression in self.dependencies())
        pairs = zip(self.operand("names"), current, strict=True)
        return {old: name for old, name in pairs if old != name}

    @cached_property
    def _name(self) -> str:
        return self._fresh(self.operand("array_name"))

    def _fresh(self, name: str) -> str:
        """Return the name of a layer of this array."""
        renamed = self._renamed
        if not renamed:
            return name
        # The prefix before the token is the phase of a task.
        prefix = name.rpartition("-")[0]
        return f"{prefix}-{tokenize(name, sorted(renamed.items()))}"

    def __dask_tokenize__(self) -> Any:
        return type(self).__name__, self._name

    def _layer(self) -> dict[Any, Any]:
        tasks = {key: task for layer in self.operand("layers") for key, task in layer.items()}
        return _with_new_names(tasks, self._renamed, self._fresh) if self._renamed else tasks


def _with_new_names(tasks: dict[Any, Any], renamed: dict[str, str], fresh: Any) -> dict[Any, Any]:
    """Return the same tasks under fresh names, over arrays of other names."""
    tasks = convert_legacy_graph(tasks, set(tasks))
    names = renamed | {name: fresh(name) for name in {_name_of(key) for key in tasks}}

    def rename(key: object) -> Any:
        name = names[_name_of(key)]
        return (name, *key[1:]) if isinstance(key, tuple) else name

    result = {}
    for key, task in tasks.items():
        dependencies = {k: rename(k) for k in task.dependencies if _name_of(k) in names}
        result[rename(key)] = task.substitute(dependencies, key=rename(key))
    return result


def _name_of(key: Any) -> str:
    return key[0] if isinstance(key, tuple) else key


@dataclass(frozen=True)
class Library:
    """A library of expression arrays.

    `array`, type: its arrays, which are made from one expression and have it as attribute `expr`.
    `solved`, type: its subclass of :class:`SolvedExpression`.
    """

    array: Any
    from_graph: Any
    solved: Any

    def as_graph(self, array: Any) -> Array:
        """Return an array with a graph that computes an expression."""
        expression = array.expr
        futures = self._persisted_blocks(expression)
        name = next(iter(futures))[0] if futures else expression._name
        layer = MaterializedLayer(futures) if futures else Awaited(expression)
        graph = HighLevelGraph({name: layer}, {name: set()})
        return Array(graph, name, expression.chunks, meta=expression._meta)

    def _persisted_blocks(self, expression: Any) -> dict[Any, Future]:
        """Return the futures of a persisted expression by the scheduler's keys; empty if none.

        Dask gives another name to the array that it persists.
        """
        is_known = isinstance(expression, (self.from_graph, self.solved))
        if not is_known or expression.dependencies():
            return {}
        tasks = expression._layer()
        if not all(isinstance(task, Future) for task in tasks.values()):
            return {}
        keys = {future.key for future in tasks.values()}
        is_one_array = len({_name_of(key) for key in keys}) == 1 and len(keys) == len(tasks)
        is_in_order = is_one_array and all(f.key[1:] == key[1:] for key, f in tasks.items())
        return {future.key: future for future in tasks.values()} if is_in_order else {}

    def as_expression(self, array: Array) -> Any:
        """Return the expression of an array with a graph, over the expressions that it reads."""
        output = array.dask.layers[array.name]
        if isinstance(output, Awaited):
            return self.array(output.expression)
        graph = array.dask.cull_layers([array.name])
        awaited = {n: layer for n, layer in graph.layers.items() if isinstance(layer, Awaited)}
        fused = optimize_blockwise(graph, keys=list(flatten(array.__dask_keys__())))
        layers = tuple(layer for layer in fused.layers.values() if not isinstance(layer, Awaited))
        parameters = layers, array.name, array.chunks, array._meta, tuple(awaited)
        expressions = [layer.expression for layer in awaited.values()]
        return self.array(self.solved(*parameters, *expressions))


@cache
def library_of(package: str) -> Library:
    """Return the library of the package "dask" or "dask_array", of which private parts are used."""
    array, expression, from_graph = map(import_module, _HOMES[package])

    class Solved(SolvedExpression, expression.ArrayExpr):  # type: ignore[misc, name-defined]
        """An array of a solve."""

    Solved.__qualname__ = f"{package}_solved"  # processes unpickle the attribute of this module
    return Library(array.Array, from_graph.FromGraph, Solved)


def __getattr__(name: str) -> Any:
    package = name.removesuffix("_solved")
    if package not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return library_of(package).solved
