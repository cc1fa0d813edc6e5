"""What the client of a plan sends its workers, and the names of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.contract.recurrence import ChunkIndex
from ..programs.assignment import Request, Shard


@dataclass(frozen=True)
class PlanShard:
    """What a worker stores of a plan.

    Attributes
    ----------
    shard : Shard
    addresses : list of str
        The workers of all shards, by their numbers.
    keys : dict, chunk index -> keys of the operands
    result_size : int
        Bytes of the results of a solve on the worker.
    request : Request
        For solves that come without one.
    timeout : float
        Seconds after which a worker that does not answer is lost.
    """

    shard: Shard
    addresses: list[str]
    keys: Mapping[ChunkIndex, Sequence[Any]]
    result_size: int
    request: Request
    timeout: float


def result_name(solve: str, number: int) -> str:
    """Return the name of a result of a solve, one for each scalar of the state."""
    return f"{solve}-{number}"


def solve_name(result: str) -> str:
    """Return the name of the solve that a result may be of."""
    return result.rpartition("-")[0]
