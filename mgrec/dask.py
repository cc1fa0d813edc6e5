"""Functions for users of a Dask cluster.

colocate
    Persist operands so that chunks of the same steps are on the same worker.
persist_in_stages
    Persist a recurrence over very many chunks without ordering its whole graph at once.
pin_operands
    Run each phase on the worker that stores the operands of its chunk.
progress
    Show how many steps of a persisted result are done.
run
    Call a function as one program on each worker, with the chunks there.
solve
    Solve at once over operands that workers store, without a graph.
warm_up
    Compile and load the code of a recurrence on each worker before the first solve.
WorkerLostError
    Exception of a plan that lost a worker, and of solve after four losses in a row.
"""

from .distributed.comms import WorkerLostError
from .distributed.observability import progress
from .distributed.placement import colocate, persist_in_stages, pin_operands
from .distributed.run import run
from .distributed.solve import solve
from .distributed.warm_up import warm_up

__all__ = [
    "WorkerLostError",
    "colocate",
    "persist_in_stages",
    "pin_operands",
    "progress",
    "run",
    "solve",
    "warm_up",
]
