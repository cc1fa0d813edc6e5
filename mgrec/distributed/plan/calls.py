"""The calls of a plan: aligned operands in the memory of workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pickle import dumps
from time import sleep
from typing import Any

import dask.array.core as da
import numpy as np
from distributed import Client, Future, wait

from ...core.arrays.array_types import to_host
from ...core.backends import common_backend
from ...core.contract.recurrence import AlongAxis, ChunkIndex, Overlapping
from ..graph.aligned import AlignedProblem, chunk_indices_of, starts_of
from ..graph.along_axis import groups_of
from ..graph.packed import is_persisted
from .results import Solution, SolvedSum, solution_of

# Seconds until the scheduler has told a client that data are lost.
NOTIFICATION = 0.2


class Call:
    """One call of a recurrence: blocks in the memory of workers, states in that of the client.

    Attributes
    ----------
    aligned : AlignedProblem
    solutions : list of Solution
        The solves whose results are operands, and may be unfinished: those that are accepted.
    """

    def __init__(
        self,
        aligned: AlignedProblem,
        client: Client,
        accepts: Callable[[Solution], bool] = lambda solution: False,
        persisted: Sequence[da.Array] = (),
    ) -> None:
        if aligned.has_unknown_sizes:
            raise ValueError(
                "a plan needs the sizes of all chunks: call compute_chunk_sizes() on the arrays"
            )
        if any(isinstance(state, da.Array) for state in aligned.initial):
            raise TypeError(
                "initial of a plan must be in host memory, and so must zi; got a Dask array"
            )
        self.solutions: list[Solution] = []
        blocks, futures, known = [], [], {array.name: array for array in persisted}
        for block in aligned.blocks:
            solution = solution_of(block)
            is_result = not isinstance(block, SolvedSum)
            if solution is not None and is_result and accepts(solution):
                self.solutions.append(solution)
            elif block.name in known:
                # A constant has a new array in each call: persisting six of them took 14 ms.
                block = known[block.name]
            else:
                block = block if is_persisted(block) else client.persist(block)
                futures += block.dask.layers[block.name].values()
            blocks.append(block)
        self.aligned = replace(aligned, blocks=tuple(blocks))
        if any(future.status != "finished" for future in futures):
            wait_for(client, futures)

    def locate(self, client: Client) -> dict[Any, tuple[str, ...]]:
        """Return the workers that store each block."""
        futures = self.aligned.futures()
        where: dict[Any, tuple[str, ...]] = client.who_has(futures)
        if not all(where.values()):
            # A worker was just lost: Dask computes its blocks again.
            sleep(NOTIFICATION)
            wait_for(client, futures)
            where = client.who_has(futures)
        return where

    def initial(self) -> dict[ChunkIndex, list[Any]]:
        """Return the states before the first chunk of every row of chunks."""
        states = list(map(to_host, self.aligned.initial))
        return {
            row: [_states_of(state, self._slices_of(row)) for state in states]
            for row in chunk_indices_of(self.aligned.rows)
        }

    def join_carry_outs(self, carry_outs: Mapping[ChunkIndex, np.ndarray]) -> np.ndarray:
        """Return the carry-outs of all rows of chunks as one array."""
        recurrence, rows = self.aligned.recurrence, self.aligned.rows
        whole = np.empty((*recurrence.state_shape, *map(sum, rows)), recurrence.dtype)
        for row, carry_out in carry_outs.items():
            index: Any = (..., *self._slices_of(row))
            whole[index] = carry_out
        return whole

    @cached_property
    def _slices(self) -> list[list[slice]]:
        return [
            [slice(k, k + n) for k, n in zip(starts_of(lengths), lengths, strict=True)]
            for lengths in self.aligned.rows
        ]

    def _slices_of(self, row: ChunkIndex) -> list[slice]:
        return [slices[k] for slices, k in zip(self._slices, row, strict=True)]

    def with_operands(self, first: Sequence[Any], operands: Sequence[Any]) -> AlignedProblem | None:
        """Return the aligned problem of a call that differs from this one only in Dask arrays.

        None if it differs otherwise, or may do so. `first` are the operands of this call,
        `operands` those of the other one.
        """
        if len(operands) != len(first) or not all(map(_are_interchangeable, first, operands)):
            return None
        pairs = zip(first, operands, strict=True)
        others = [(array.name, other) for array, other in pairs if isinstance(array, da.Array)]
        by_name = dict(others)
        blocks = self.aligned.blocks
        if len(by_name) < len(others) or by_name.keys() != {block.name for block in blocks}:
            return None
        # A block that is an operand of this call again stays the persisted one.
        new = ((block, by_name[block.name]) for block in blocks)
        return replace(
            self.aligned,
            blocks=tuple(block if other.name == block.name else other for block, other in new),
        )

    def check_like(self, first: Call) -> None:
        """Raise ValueError unless a plan that was built for `first` can solve this call."""
        wanted, problem = first.aligned, self.aligned
        names = "axis", "reverse", "parts of tiles"
        for name, want, got in (
            ("chunks", wanted.chunks, problem.chunks),
            ("chunks of operands", *([b.chunks for b in p.blocks] for p in (wanted, problem))),
            ("dtype", wanted.recurrence.dtype, problem.recurrence.dtype),
            ("states", wanted.recurrence.results, problem.recurrence.results),
            *zip(names, _axes_of(wanted), _axes_of(problem), strict=False),
        ):
            if want != got:
                raise ValueError(
                    f"{name} of a plan's solve must be {want}, as it was built; got {got}"
                )
        if isinstance(wanted.recurrence, Overlapping) and not _have_same_parts(wanted, problem):
            raise ValueError(
                "a filter of a plan's solve must need as many samples of neighbouring chunks as "
                "that with which it was built: build a plan with this one"
            )


def _axes_of(aligned: AlignedProblem) -> tuple[Any, ...]:
    """Return axis and direction of a recurrence; of a grid its axes and how tiles may be split."""
    recurrence = aligned.recurrence
    if isinstance(recurrence, (AlongAxis, Overlapping)):
        return recurrence.axis, recurrence.reverse
    backend = common_backend(aligned.blocks)
    shape = tuple(max(lengths) for lengths in aligned.chunks)
    parts = tuple(recurrence.part(backend, shape, axis) for axis in recurrence.axes)
    return recurrence.axes, False, parts


def _have_same_parts(first: AlignedProblem, other: AlignedProblem) -> bool:
    """Return whether the chunks of two filters need the same parts of each other."""
    if other.recurrence.is_same(first.recurrence):
        return True
    pairs = ((aligned.recurrence, aligned.blocks[0]) for aligned in (first, other))
    plans = [
        [(group.parts, dumps(group.recipe)) for group in groups_of(r.axis_filter, block, r.axis)]
        for r, block in pairs
    ]
    return plans[0] == plans[1]


def _are_interchangeable(first: object, other: object) -> bool:
    """Return whether operands are equal, or Dask arrays that differ only in their values."""
    if isinstance(first, da.Array):
        return (
            isinstance(other, da.Array)
            and first.chunks == other.chunks
            and first.dtype == other.dtype
            and type(first._meta) is type(other._meta)
        )
    if isinstance(first, (int, float, complex, np.generic)):
        return type(first) is type(other) and repr(first) == repr(other)
    return first is other and (first is None or callable(first) or isinstance(first, str))


def wait_for(client: Client, futures: list[Future]) -> None:
    """Wait for operands; raise the error of one that failed."""
    with client.as_current():
        wait(futures)
    for future in futures:
        if future.status == "error":
            future.result()


def _states_of(state: Any, rows: list[slice]) -> Any:
    """Return the states of some rows, from states (..., rows) whose axes may have length 1."""
    leading = [slice(None)] * (state.ndim - len(rows))
    parts = zip((*leading, *rows[max(0, len(rows) - state.ndim) :]), state.shape, strict=True)
    return state[tuple(slice(None) if length == 1 else part for part, length in parts)]
