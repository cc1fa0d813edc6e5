"""Checks of the graphs of Dask arrays, of both kinds."""

from dask._task_spec import convert_legacy_graph
from distributed import Future


def check_graph(array):
    """Every task finds what it reads."""
    graph = array.__dask_graph__()
    if hasattr(graph, "validate"):
        graph.validate()
        return
    held = {each.key for each in graph.values() if isinstance(each, Future)}
    tasks = convert_legacy_graph(dict(graph))
    asked = {key for task in tasks.values() for key in task.dependencies}
    assert asked <= {*tasks, *held}
