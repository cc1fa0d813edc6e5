"""Groups of processes that solve one recurrence together, each with its part of the axis.

Every rank of a group calls the same functions in the same order, with its part of the arrays and
``group=``, as programs of MPI or torchrun do. A result is the part of the rank.

from_mpi
    Return the group of an MPI communicator of mpi4py.
from_nccl
    Return a group of GPUs that NCCL connects.
from_torch
    Return the group of a process group of torch.distributed.
Group
    What functions use of a group; a class for groups of your own.
"""

from __future__ import annotations

from typing import Any

from .distributed.groups.group import Group

__all__ = ["Group", "from_mpi", "from_nccl", "from_torch"]


def from_mpi(comm: Any = None) -> Group:
    """Return the group of an MPI communicator, which is duplicated.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm, optional
        The default is ``MPI.COMM_WORLD``. All of its ranks have to call this function.

    Returns
    -------
    Group

    Notes
    -----
    CuPy arrays pass through host memory, a few numbers for each call.

    Examples
    --------
    Run a script on four processes by ``mpiexec -n 4 python script.py``:

    >>> from mpi4py import MPI  # doctest: +SKIP
    >>> group = mgrec.collective.from_mpi(MPI.COMM_WORLD)  # doctest: +SKIP
    >>> mgrec.linear_recurrence(0.5, part, group=group)  # doctest: +SKIP
    """
    from .distributed.groups.mpi import MPIGroup

    return MPIGroup(comm)


def from_torch(process_group: Any = None, *, timeout: float = 600.0) -> Group:
    """Return the group of a process group of torch.distributed, over gloo or NCCL.

    Parameters
    ----------
    process_group : torch.distributed.ProcessGroup, optional
        The default is the group of all processes. All of its ranks have to call this function.
    timeout : float, optional
        Over NCCL: seconds after which a rank that waits for another one raises an error.

    Returns
    -------
    Group

    Notes
    -----
    If a process ends, functions of the others raise :class:`mgrec.dask.WorkerLostError`: gloo
    notices at once, NCCL after the timeout. Over NCCL the group has a communicator of its own, made
    by CuPy, on the current device of torch. As for :func:`from_nccl`, all ranks call functions of
    several groups in one order, and collectives of torch, too.

    Examples
    --------
    In a script that ``torchrun --nproc_per_node=2 script.py`` starts:

    >>> torch.distributed.init_process_group("gloo")  # doctest: +SKIP
    >>> group = mgrec.collective.from_torch()  # doctest: +SKIP
    >>> mgrec.linear_recurrence(0.5, part, group=group)  # doctest: +SKIP
    """
    from .distributed.arguments import as_timeout
    from .distributed.groups.torch import group_of

    return group_of(process_group, as_timeout(timeout))


def from_nccl(unique_id: Any, rank: int, size: int, *, timeout: float = 10.0) -> Group:
    """Return a group of GPUs: one process each, whose current device of CuPy is its GPU.

    Parameters
    ----------
    unique_id : tuple of int
        What ``cupy.cuda.nccl.get_unique_id()`` returned on one rank; the same on all ranks.
    rank : int
        Position of this process, from 0 to ``size - 1``.
    size : int
        Number of processes. All of them have to call this function.
    timeout : float, optional
        Seconds to wait for the other ranks in a call, before :class:`mgrec.dask.WorkerLostError` is
        raised and the group ends.

    Returns
    -------
    Group

    Notes
    -----
    All ranks call functions of several groups in one order, as NCCL requires: from one thread, or
    from threads that take turns. In another order on each GPU, the kernels of two groups may wait
    for each other for ever.
    """
    from .distributed.arguments import as_timeout
    from .distributed.groups.nccl import NCCLGroup

    return NCCLGroup(unique_id, rank, size, as_timeout(timeout))
