"""Filters of Dask arrays come in by the door of all recurrences: see build.py."""

from __future__ import annotations

from typing import Any

import dask.array as da

from ....families.filters.door import FilterProblem
from ..tasks.filters import FilterRecipe
from .build import build
from .cuts import Cut


def solve_filter(problem: FilterProblem) -> tuple[Any, Any]:
    """The lazy result of a filter, and its lazy states after the last sample.

    The states are None where none were given before the first sample: nobody asks.
    """
    (y,), exit = build(lambda: cut_filter(problem), ((problem.x,), problem.entry))
    return y, exit


def cut_filter(problem: FilterProblem) -> Cut:
    x = problem.x if isinstance(problem.x, da.Array) else da.from_array(problem.x, chunks=-1)
    initial = () if problem.entry is None else (problem.entry,)
    return Cut(FilterRecipe.of(problem), (x,), x.chunks, initial)
