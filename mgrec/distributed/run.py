"""A function as one program on each worker, with the chunks there: a rank of a group."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from uuid import uuid4

import dask.array.core as da
import numpy as np
from dask.array.utils import meta_from_array
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph
from distributed import Client, Future, KilledWorker, get_worker, secede

from ..core.arrays.array_types import to_host
from .arguments import as_timeout, client_of, name_of
from .comms import WorkerLostError
from .expressions import accepts_expressions
from .groups.dask import end_group
from .groups.mailbox import NAME, install
from .groups.start import start_group
from .placement import persisted, wait_for
from .plan.internals import register
from .plan.session import release_gpus
from .versions import check_workers

Key = tuple[Any, ...]


@dataclass(frozen=True)
class _Whole:
    """An operand that every rank gets as it is."""

    value: Any


@dataclass(frozen=True)
class _Part:
    """A part of a result, in the memory of a worker."""

    key: Key
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    library: str
    nbytes: int


@accepts_expressions
def run(
    function: Callable[..., Any],
    *operands: Any,
    client: Client | None = None,
    timeout: float = 10.0,
    **options: Any,
) -> Any:
    """Call a function once on each worker that stores chunks, as one program in several ranks.

    Each rank gets its part of the arrays, and a group (:class:`mgrec.collective.Group`) for
    ``group=`` of mgrec's functions. So a loop over time steps runs on the workers, without a
    message to the client or the scheduler.

    Parameters
    ----------
    function : callable
        Called as ``function(*parts, group=group, **options)``, in a thread of the worker.
    *operands
        At least one Dask array. Those of several chunks have these along the same axis, with the
        same lengths; the other axes have one chunk. Each rank gets a run of neighbouring chunks
        as one array, those of a worker as far as that stores neighbours: others move. Arrays of a
        single chunk, and other objects, reach every rank whole. Arrays are persisted first if
        they are not.
    client : distributed.Client, optional
        Default: the default client.
    timeout : float, optional
        Seconds after which a worker that does not answer is lost. A worker that computes answers.
    **options
        Further arguments of the function.

    Returns
    -------
    dask.array.Array, list, or tuple of these
        What the function returns, which may be a tuple. Arrays that have the axis of the chunks are
        joined along it: a Dask array in the memory of the workers, with one chunk for each rank.
        Other values, and arrays with fewer axes, are a list in the order of the ranks.

    Raises
    ------
    TypeError
        No operand is a Dask array, or the client is asynchronous.
    ValueError
        Chunks of operands differ, or are along several axes; parts of a result differ in dtype or
        shape, or ranks return different numbers of values.
    RuntimeError
        A worker has no mgrec, or another version than the client.
    mgrec.dask.WorkerLostError
        A worker was lost. All ranks raise it, so that their workers are free again.
    Exception
        What the function raises on a rank. The other ranks raise it where they wait for that rank.

    Notes
    -----
    All ranks call functions with ``group=`` in the same order. Threads of Dask's workers are not
    occupied: any number of programs may run at the same time. The GPUs of a worker exchange messages
    for one of them, or for the plans of one client; the messages of others go through the hosts.
    Results of a worker that is lost later are gone, since no graph can compute them again.

    Examples
    --------
    >>> import dask.array as da, mgrec, mgrec.dask
    >>> from distributed import Client
    >>> def steps(u, group, count):
    ...     for _ in range(count):
    ...         u = mgrec.linear_recurrence(0.5, u, group=group)
    ...     return u
    >>> with Client(processes=False, n_workers=2, dashboard_address=None):
    ...     u = mgrec.dask.run(steps, da.ones(1000, chunks=100), count=10)
    ...     float(u[-1].compute())
    1024.0
    """
    client, timeout = client_of(client), as_timeout(timeout)
    if client.asynchronous:
        raise TypeError("run needs a client that waits; got an asynchronous one")
    if not callable(function):
        raise TypeError(f"function must be callable; got {function!r}")
    divided = _Divided.of(operands, client)
    client.sync(check_workers, client)
    ranks = divided.ranks(client)
    addresses = [address for address, _ in ranks]
    client.run(install, workers=addresses)
    if divided.has_gpus and len(addresses) > 1:
        client.sync(release_gpus, client, timeout)
    name = f"{name_of(function)}-{uuid4().hex}"
    futures = [
        client.submit(
            _call_on_rank,
            function,
            name,
            rank,
            addresses,
            timeout,
            divided.axis,
            [divided.parts(operand, chunks) for operand in divided.operands],
            options,
            divided.has_gpus,
            key=f"{name}-{rank}",
            workers=[address],
            allow_other_workers=False,
            retries=0,
        )
        for rank, (address, chunks) in enumerate(ranks)
    ]
    try:
        return _results(divided, addresses, _gathered(futures, addresses, client), client)
    except BaseException:
        client.cancel(futures)
        client.sync(_end_ranks, client, name, addresses, timeout)
        raise


def _gathered(futures: list[Future], addresses: list[str], client: Client) -> list[Any]:
    """Return the answers of all ranks, or raise the first error."""
    try:
        return list(client.gather(futures))
    except (CancelledError, KilledWorker) as error:
        known = client.nthreads()
        lost = [f"rank {k}, on {to}" for k, to in enumerate(addresses) if to not in known]
        raise WorkerLostError(f"a worker of the group was lost: {' and '.join(lost) or error}") from error


async def _end_ranks(client: Client, name: str, addresses: list[str], timeout: float) -> None:
    """End the ranks that a worker still runs; some workers may be lost."""
    with suppress(OSError):  # A timeout is one.
        async with asyncio.timeout(timeout):
            await client.run(end_group, name, workers=addresses, on_error="ignore")


@dataclass(frozen=True)
class _Divided:
    """Operands of a call, whose Dask arrays are in the memory of workers."""

    operands: list[Any]
    axis: int
    lengths: tuple[int, ...]

    @classmethod
    def of(cls, operands: Sequence[Any], client: Client) -> _Divided:
        """Persist Dask arrays; raise unless all are divided in the same way."""
        arrays = [operand for operand in operands if isinstance(operand, da.Array)]
        if not arrays:
            raise TypeError("run needs a Dask array among its operands; got none")
        axes = {axis for array in arrays for axis, n in enumerate(array.numblocks) if n > 1}
        if len(axes) > 1:
            raise ValueError(
                f"operands must have several chunks along one axis only; got chunks along the axes "
                f"{sorted(axes)}: rechunk them"
            )
        axis = min(axes, default=0)
        several = [array.chunks[axis] for array in arrays if max(array.numblocks, default=1) > 1]
        if any(lengths != several[0] for lengths in several):
            raise ValueError(
                f"operands must have the same chunks along axis {axis}; got "
                f"{' and '.join(map(str, dict.fromkeys(several)))}: rechunk them"
            )
        present = [persisted(client, x) if isinstance(x, da.Array) else x for x in operands]
        divided = cls(present, axis, several[0] if several else (0,))
        wait_for(client, [future for operand in present for future in divided.futures(operand)])
        return divided

    @property
    def has_gpus(self) -> bool:
        """Whether all Dask arrays have chunks of CuPy."""
        metas = [operand._meta for operand in self.operands if isinstance(operand, da.Array)]
        return all(_library_of(meta) == "cupy" for meta in metas)

    def futures(self, operand: Any) -> list[Future]:
        """Return the chunks of an operand; none if it is no Dask array."""
        if not isinstance(operand, da.Array):
            return []
        layer = operand.dask.layers[operand.name]
        return [layer[key] for key in flatten(operand.__dask_keys__())]

    def ranks(self, client: Client) -> list[tuple[str, range]]:
        """Return the worker of each rank and its chunks: as many of them as the worker stores."""
        chunks = [self.futures(operand) for operand in self.operands]
        all_chunks = [futures for futures in chunks if len(futures) == len(self.lengths)]
        where = client.who_has([future for futures in all_chunks for future in futures])
        positions: dict[str, list[int]] = {}
        for k in range(len(self.lengths)):
            count = Counter(to for futures in all_chunks for to in where[futures[k].key])
            if not count:
                raise WorkerLostError(f"chunk {k} of the operands is on no worker: it was lost")
            # Most of the operands, then the fewest chunks: all workers may have replicas.
            best = min(count, key=lambda to: (-count[to], len(positions.get(to, ())), to))
            positions.setdefault(best, []).append(k)
        ordered = sorted(positions, key=lambda address: np.mean(positions[address]))
        stops = np.cumsum([0, *(len(positions[address]) for address in ordered)]).tolist()
        return [(address, range(*pair)) for address, pair in zip(ordered, pairwise(stops), strict=True)]

    def parts(self, operand: Any, chunks: range) -> Any:
        """Return an operand of a rank: the chunks of its part, or the whole operand."""
        futures = self.futures(operand)
        if not futures:
            return _Whole(operand)
        return [futures[k] for k in chunks] if len(futures) > 1 else futures


def _call_on_rank(
    function: Callable[..., Any],
    name: str,
    rank: int,
    addresses: list[str],
    timeout: float,
    axis: int,
    operands: list[Any],
    options: dict[str, Any],
    has_gpus: bool,
) -> tuple[bool, list[Any]]:
    """Run a rank; return whether the function returns a tuple, and what the client needs of it."""
    plugin = get_worker().plugins[NAME]
    secede()  # Ranks wait for each other: none may wait for a thread of the worker.
    group = start_group(plugin, name, rank, addresses, timeout, name if has_gpus else "")
    try:
        with group.on_stream():
            parts = [_joined(operand, axis) for operand in operands]
            operands.clear()
            returned = function(*parts, group=group, **options)
            del parts
        values = returned if isinstance(returned, tuple) else (returned,)
        described = [_described(f"{name}-{k}", value, axis, rank) for k, value in enumerate(values)]
        arrays = {
            part.key: value for part, value in zip(described, values, strict=True) if isinstance(part, _Part)
        }
        group.wait_for_return()
        group.store(arrays)
    except BaseException as error:
        group.abort(error)
        raise
    finally:
        group.close()
    return isinstance(returned, tuple), described


def _joined(operand: Any, axis: int) -> Any:
    if isinstance(operand, _Whole):
        return operand.value
    return operand[0] if len(operand) == 1 else np.concatenate(operand, axis=axis)


def _described(name: str, value: Any, axis: int, rank: int) -> Any:
    """Return the description of a part of a result; another value as it is."""
    if not (hasattr(value, "__array_interface__") or hasattr(value, "__cuda_array_interface__")):
        return value
    if value.ndim <= axis:
        return to_host(value)
    key = name, *(rank if k == axis else 0 for k in range(value.ndim))
    return _Part(key, value.shape, value.dtype, _library_of(value), value.nbytes)


def _results(
    divided: _Divided, addresses: list[str], answers: list[tuple[bool, list[Any]]], client: Client
) -> Any:
    """Return the values of all ranks: parts as Dask arrays, others as lists."""
    counts = [len(values) if is_tuple else None for is_tuple, values in answers]
    if len({*counts}) > 1:
        raise ValueError(
            f"function must return as many values on all ranks; got {counts} of ranks 0 to "
            f"{len(counts) - 1} (None: no tuple)"
        )
    columns = [[*values] for values in zip(*(values for _, values in answers), strict=True)]
    arrays = {
        number: _array_of(values, number, divided, client)
        for number, values in enumerate(columns)
        if any(isinstance(value, _Part) for value in values)
    }
    stored = {
        part.key: (addresses[rank], part.nbytes)
        for number in arrays
        for rank, part in enumerate(columns[number])
    }
    client.sync(register, client, stored)
    results = tuple(arrays.get(number, values) for number, values in enumerate(columns))
    return results if answers[0][0] else results[0]


def _array_of(parts: list[Any], number: int, divided: _Divided, client: Client) -> da.Array:
    """Return the array of parts, which the scheduler does not know yet."""
    axis, first = divided.axis, _form_of(parts[0], divided.axis)
    for rank, part in enumerate(parts):
        if _form_of(part, axis) != first:
            raise ValueError(
                f"value {number} of function must have the same dtype, and the same shape but "
                f"along axis {axis}, on all ranks; rank 0 returns {first}, rank {rank} returns "
                f"{_form_of(part, axis)}"
            )
    chunks = [(length,) for length in parts[0].shape]
    chunks[axis] = tuple(part.shape[axis] for part in parts)
    name = parts[0].key[0]
    graph = HighLevelGraph({name: {p.key: Future(p.key, client) for p in parts}}, {name: set()})
    metas = (x._meta for x in divided.operands if isinstance(x, da.Array))
    like = next((m for m in metas if _library_of(m) == parts[0].library), np.empty(0))
    meta = meta_from_array(like, len(chunks), parts[0].dtype)
    return da.Array(graph, name, tuple(chunks), meta=meta)


def _form_of(part: Any, axis: int) -> str:
    """Return what parts have in common, for messages."""
    if not isinstance(part, _Part):
        return f"{type(part).__name__}"
    lengths: list[Any] = [*part.shape]
    lengths[axis] = "..."
    return f"{part.library} {part.dtype} of shape ({', '.join(map(str, lengths))})"


def _library_of(array: object) -> str:
    return type(array).__module__.partition(".")[0]
