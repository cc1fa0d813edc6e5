"""A rank of a group of two: solves its halves, and prints its rank if all are right.

usage: group_program.py mpi | gloo RANK FILE | "gloo compiled" RANK FILE | nccl RANK FILE
       | cupy RANK FILE
"""

import pickle
import sys
import time
from pathlib import Path

import numpy as np

import mgrec
import mgrec.collective


def group_of(library, rank, file):
    """Return the group, and the function that moves an array to where it computes."""
    if library == "mpi":
        return mgrec.collective.from_mpi(), np.asarray
    if library == "cupy":
        import cupy
        from cupy.cuda import nccl

        cupy.cuda.Device(rank).use()
        if rank == 0:
            Path(file + ".part").write_bytes(pickle.dumps(nccl.get_unique_id()))
            Path(file + ".part").rename(file)
        while not Path(file).exists():
            time.sleep(0.01)
        unique_id = pickle.loads(Path(file).read_bytes())
        return mgrec.collective.from_nccl(unique_id, rank, 2, timeout=60), cupy.asarray
    import torch
    import torch.distributed as dist

    if library == "nccl":
        torch.cuda.set_device(rank)
    dist.init_process_group(library, init_method=f"file://{file}", rank=rank, world_size=2)
    device = "cuda" if library == "nccl" else "cpu"
    return mgrec.collective.from_torch(), lambda array: torch.asarray(array, device=device)


def check_gradients(group, move, s, t, part, is_compiled):
    """Of a loss of all ranks; torch.compile ends its graph before the call."""
    import torch

    def loss_of(s, t, **options):
        return (mgrec.linear_recurrence(s, t, **options) ** 2).sum()

    whole = [torch.tensor(array, requires_grad=True) for array in (s, t)]
    expected = torch.autograd.grad(loss_of(*whole), whole)
    for _ in range(3):  # Calls without a group may be prepared; those of the group are not these.
        loss_of(*(move(array[part]).requires_grad_() for array in (s, t))).backward()
    compiled = [torch.compile(loss_of, backend="eager")] if is_compiled else []
    for function in (loss_of, *compiled):
        parts = [move(array[part]).requires_grad_() for array in (s, t)]
        found = torch.autograd.grad(function(*parts, group=group), parts)
        for gradient, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(gradient.cpu(), wanted[part], rtol=1e-10, atol=1e-12)


def main():
    library, rank, file = (*sys.argv[1:], "0", "")[:3]
    library, _, is_compiled = library.partition(" ")
    group, move = group_of(library, int(rank), file)
    generator = np.random.default_rng(1)
    s, t = generator.uniform(-0.9, 0.9, 1000), generator.random(1000)
    part = slice(*((0, 400), (400, 1000))[group.rank])
    for initial in ((2.0,), (), ()):  # the last call is prepared
        w = mgrec.linear_recurrence(move(s[part]), move(t[part]), *initial, group=group)
        assert type(w) is type(move(t)) and w.dtype == move(t).dtype
        expected = mgrec.linear_recurrence(s, t, *initial)[part]
        np.testing.assert_allclose(w.tolist(), expected, rtol=1e-12, atol=1e-14)

    array = move(t)[group.rank : group.rank + 3]
    if library in ("mpi", "cupy"):
        left, right = group.exchange(array, 2 * array)
        assert (left is None) == (group.rank == 0)
        assert (right is None) == (group.rank == 1)
        received = right if left is None else left / 2
        np.testing.assert_array_equal(received.tolist(), t[1 - group.rank :][:3])
    else:
        check_gradients(group, move, s, t, part, is_compiled)
    if library in ("gloo", "nccl"):
        import torch.distributed as dist

        # A thread of gloo that lives at the end of the process would abort it.
        dist.barrier()
        dist.destroy_process_group()
    sys.stdout.write(f"{group.rank}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
