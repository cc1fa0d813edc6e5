"""Checks of the graphs of Dask arrays, of both kinds, and of what they compute."""

import dask.array as da
import numpy as np
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


def fetched(array, xp=np):
    """A NumPy array, where an array of `xp`, or a Dask array of those, was wanted."""
    if isinstance(array, da.Array):
        check_graph(array)
        array = array.compute(scheduler="sync")
    assert isinstance(array, xp.ndarray)
    return array if xp is np else array.get()
