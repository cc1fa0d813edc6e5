"""One sequence over the ranks of torch, forward and backward, against a rank's part without them.

Each rank has a process, a GPU and a part of the sequence along axis 0. The figure of a row is the
time of one call on the part alone, divided by that of a call with ``group=``: 1 if nothing is lost.
A call is one of CALLS that follow each other. Parts with ``group=`` must have the values and the
gradients of the whole sequence.
"""

from __future__ import annotations

import argparse
import json
import socket
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import mgrec
import mgrec.collective

from ..harness.clock import of_slowest, seconds_on_rank
from ..harness.command import Command, Options
from ..harness.study import Study

STEPS, CHANNELS, SMALL = 1 << 21, 256, 1 << 7
CALLS, REPETITIONS = 20, 7
WANTED = {"forward": 0.97, "forward and backward": 0.95}
DTYPES = "float32", "bfloat16"


def rank_program(rank: int, size: int, port: int, steps: int, answer: str) -> None:
    """Write the seconds of calls on a rank, by dtypes and directions."""
    has_gpus = torch.cuda.is_available()
    if has_gpus:
        torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl" if has_gpus else "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size
    )
    device = torch.device("cuda", rank) if has_gpus else torch.device("cpu")
    synchronise = torch.cuda.synchronize if has_gpus else (lambda: None)
    group, seconds = mgrec.collective.from_torch(), {}
    check(group, device)
    for dtype in DTYPES:
        torch.manual_seed(rank)
        drawn = [torch.rand(steps, CHANNELS, device=device) for _ in range(3)]
        drawn[0].mul_(0.4).add_(0.5)
        s, t, grad = (x.to(getattr(torch, dtype)) for x in drawn)
        del drawn
        s.requires_grad_()
        t.requires_grad_()
        for name, given in (("alone", {}), ("ranks", {"group": group})):

            def forward(s: Any = s, t: Any = t, given: Any = given) -> Any:
                with torch.no_grad():
                    return mgrec.linear_recurrence(s, t, axis=0, **given)

            def both(s: Any = s, t: Any = t, grad: Any = grad, given: Any = given) -> Any:
                result = mgrec.linear_recurrence(s, t, axis=0, **given)
                return torch.autograd.grad(result, (s, t), grad)

            for direction, call in zip(WANTED, (forward, both), strict=True):
                found = seconds_on_rank(group, call, CALLS, REPETITIONS, synchronise)
                seconds[f"{dtype}, {direction}, {name}"] = found
    Path(answer).with_suffix(f".{rank}").write_text(json.dumps(seconds))
    group.abort()
    if has_gpus:
        dist.destroy_process_group()


def check(group: Any, device: Any) -> None:
    """Raise unless parts have the values and the gradients of the whole sequence."""
    torch.manual_seed(0)
    length = 1000 * group.size
    s, t, grad = (torch.rand(length, 8, dtype=torch.float64, device=device) for _ in range(3))
    part = slice(1000 * group.rank, 1000 * (group.rank + 1))
    results = []
    for chosen, given in ((slice(None), {}), (part, {"group": group})):
        operands = [x[chosen].clone().requires_grad_() for x in (s, t)]
        result = mgrec.linear_recurrence(*operands, axis=0, **given)
        results.append([result, *torch.autograd.grad(result, operands, grad[chosen])])
    for whole, own in zip(*results, strict=True):
        torch.testing.assert_close(own, whole[part], rtol=1e-10, atol=1e-10)


def measure(study: Study, arguments: argparse.Namespace) -> None:
    size, steps = arguments.ranks, SMALL if arguments.small else STEPS
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank_program, (size, port, steps, str(Path(folder) / "rank")), nprocs=size)
        answers = [json.loads(path.read_text()) for path in Path(folder).iterdir()]
    for dtype in DTYPES:
        for direction, wanted in WANTED.items():
            case, times = f"{dtype}, {direction}", {}
            for name in ("alone", "ranks"):
                times[name] = of_slowest(answer[f"{case}, {name}"] for answer in answers)
                study.add(case, name, times[name], steps=steps * CHANNELS)
            study.ratio(case, times["alone"], times["ranks"], wanted)


OPTIONS: Options = {
    "--ranks": {"type": int, "default": 2},
    "--small": {"action": "store_true", "help": "sizes that tests can bear"},
}

if __name__ == "__main__":
    Command("training", __doc__, measure, options=OPTIONS).main()
