"""A program of torchrun: a state-space layer learns from one sequence that ranks divide.

``pip install 'mgrec[torch]'``, then
``torchrun --standalone --nproc-per-node 2 deploy/torchrun.py``. Each rank has a GPU, or a
processor where torch finds no GPU. It has its part of the steps alone; the layer passes states,
and their gradients, from part to part. The program fails unless the gradients of all ranks are
those of the whole sequence on one.
"""

import os
import time
from collections.abc import Callable

import click
import torch
import torch.distributed as dist

import mgrec
import mgrec.collective

STATES, CHECKED = 4, 10_000


def layer(
    log_times: torch.Tensor,
    weights: torch.Tensor,
    x: torch.Tensor,
    group: mgrec.collective.Group | None = None,
) -> torch.Tensor:
    """Sums of states with decays of their own, h_i = a·h_(i-1) + x_i, along the first axis."""
    decays = torch.exp(-torch.exp(-log_times)).to(x.dtype)
    inputs = x[..., None].expand(*x.shape, STATES)
    states = mgrec.linear_recurrence(decays[None, None], inputs, axis=0, group=group)
    return states @ weights.to(x.dtype)


def gradients(x: torch.Tensor, group: mgrec.collective.Group | None = None) -> list[torch.Tensor]:
    """Gradients of the power of the layer's output by its parameters, over all ranks."""
    log_times = torch.tensor([5.0, 50.0, 500.0, 5000.0], device=x.device).log().requires_grad_()
    weights = torch.tensor([1.0, -0.5, 0.2, 0.1], device=x.device).requires_grad_()
    (layer(log_times, weights, x, group).float() ** 2).mean().backward()
    parameters = [log_times.grad, weights.grad]
    if group is not None:
        for gradient in parameters:  # as for parameters in data parallelism
            dist.all_reduce(gradient)
            gradient /= group.size
    return parameters


def seconds_of(call: Callable[[], object], count: int, device: torch.device) -> float:
    """Seconds of a call, of several in a row."""

    def synchronize() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()
        dist.barrier()

    call()
    synchronize()
    start = time.perf_counter()
    for _ in range(count):
        call()
    synchronize()
    return (time.perf_counter() - start) / count


@click.command(help=__doc__)
@click.option("--steps", default=1 << 18, help="Steps a rank.")
@click.option("--channels", default=4, help="Sequences side by side.")
@click.option("--dtype", default="float32", help="float32, bfloat16 or float16.")
@click.option("--count", default=5, help="Evaluations that are timed.")
def main(steps: int, channels: int, dtype: str, count: int) -> None:
    has_gpus = torch.cuda.is_available()
    device = torch.device(f"cuda:{os.environ['LOCAL_RANK']}" if has_gpus else "cpu")
    if has_gpus:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if has_gpus else "gloo")
    group = mgrec.collective.from_torch()
    torch.manual_seed(0)
    whole = torch.randn(CHECKED * group.size, channels).to(device)
    part = whole[group.rank * CHECKED : (group.rank + 1) * CHECKED]
    for found, wanted in zip(gradients(part, group), gradients(whole), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-5)

    torch.manual_seed(group.rank)
    x = torch.randn(steps, channels).to(device, getattr(torch, dtype))
    alone = seconds_of(lambda: gradients(x), count, device)
    together = seconds_of(lambda: gradients(x, group), count, device)
    if group.rank == 0:
        click.echo(
            f"{steps} x {channels} {dtype} on each of {group.size} ranks, with gradients: "
            f"{1e3 * together:.3g} ms, each part alone {1e3 * alone:.3g} ms"
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
