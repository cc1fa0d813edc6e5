"""The operands of a share, in the memory of its worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from distributed.utils_comm import gather_from_workers

from ....families.family import Place


async def blocks_of(worker: Any, asked: Mapping[Place, Sequence[Any]]) -> dict[Place, list[Any]]:
    """Operands from a worker's memory; those that lie elsewhere are fetched."""
    keys = {key for own in asked.values() for key in own}
    # Taken before anything is awaited: replicas may be dropped meanwhile.
    found = {key: worker.data[key] for key in keys if key in worker.data}
    missing = [key for key in keys if key not in found]
    if missing:
        where = await worker.scheduler.who_has(keys=missing)
        fetched, lost, *_ = await gather_from_workers(where, rpc=worker.rpc)
        if lost or len(fetched) < len(missing):
            raise RuntimeError(f"operands of a plan must be in memory; {missing[0]} is not")
        found |= fetched
    return {at: [found[key] for key in own] for at, own in asked.items()}
