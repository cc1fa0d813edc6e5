"""Filters inside torch on a CPU, forward and backward, against torchaudio, torchlpc and philtorch.

Each candidate computes the gradients of the signal and of the coefficients. torchlpc has a
recursive filter whose coefficients vary in time, which are expanded; torch computes its numerator.
philtorch is asked for its fastest form for this filter, "df1".
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from mgrec import signal

from ..harness.command import Command
from ..harness.machine import optional, processor_count
from ..harness.study import Study

torch = optional("torch")
ROWS, STEPS, QUICK_STEPS = 64, 1 << 20, 1 << 14
B, A = (0.2, 0.3, 0.1), (1.0, -1.2, 0.5)
# Largest differences from the gradients in float64, as parts of the largest entry.
SIGNALS, SUMS = 1e-5, 1e-3
Solve = Callable[..., Any]
"""``(*tensors) -> result``"""


def by_torchaudio(b: Any, a: Any, x: Any) -> Any:
    from torchaudio.functional import lfilter

    return lfilter(x, a, b, clamp=False)


def by_torchlpc(b: Any, a: Any, x: Any) -> Any:
    # numba-cuda 0.30 uses names that NumPy 2.5 removed.
    vars(np).setdefault("row_stack", np.vstack)
    from torchlpc import sample_wise_lpc

    b, a = b / a[0], a / a[0]
    padded = torch.nn.functional.pad(x, (len(b) - 1, 0))[:, None]
    moving = torch.nn.functional.conv1d(padded, b.flip(0)[None, None])[:, 0]
    return sample_wise_lpc(moving, a[1:].expand(*x.shape, len(a) - 1))


def by_philtorch(b: Any, a: Any, x: Any) -> Any:
    from philtorch.lti import lfilter

    return lfilter(b, a[1:], x, form="df1")


PEERS: dict[str, tuple[Solve, float]] = {
    "torchaudio": (by_torchaudio, 3.0),
    "torchlpc": (by_torchlpc, 2.0),
    "philtorch": (by_philtorch, 2.0),
}
"""Functions, and how many times as fast mgrec is wanted to be."""


def differentiate(solve: Solve, tensors: Sequence[Any], grad: Any) -> Sequence[Any]:
    """Return the gradients of all tensors."""
    return torch.autograd.grad(solve(*tensors), tensors, grad)


def tensors_of(x: Any, dtype: Any) -> list[Any]:
    coefficients = (torch.tensor(values, dtype=dtype) for values in (B, A))
    return [each.requires_grad_() for each in (*coefficients, x.detach().to(dtype))]


def differences(solve: Solve, x: Any, grad: Any, expected: Sequence[Any]) -> list[float]:
    """Compare y and the gradients of x, b and a without a_0 with those in float64."""
    tensors = tensors_of(x, x.dtype)
    of_b, of_a, of_x = differentiate(solve, tensors, grad)
    results = solve(*tensors).detach(), of_x, of_b, of_a[1:]
    return [
        float((result - wanted).abs().max() / wanted.abs().max())
        for result, wanted in zip(results, expected, strict=True)
    ]


def measure(study: Study, arguments: argparse.Namespace) -> None:
    case, steps = "lfilter, order 2", QUICK_STEPS if arguments.quick else STEPS
    if torch is None:
        study.miss(case, "mgrec", "torch is not installed")
        return
    torch.set_num_threads(int(os.environ.get("MGREC_NUM_THREADS", processor_count())))
    random = np.random.default_rng(0)
    x, grad = (torch.from_numpy(random.standard_normal((ROWS, steps), dtype=np.float32)) for _ in range(2))
    wide = tensors_of(x, torch.float64)
    of_b, of_a, of_x = differentiate(signal.lfilter, wide, grad.double())
    expected = signal.lfilter(*wide).detach(), of_x, of_b, of_a[1:]
    filters: dict[str, Solve] = {"mgrec": signal.lfilter}
    filters |= {name: solve for name, (solve, _) in PEERS.items()}
    tensors, plain = tensors_of(x, x.dtype), [torch.tensor(B), torch.tensor(A), x]
    forward, both = {}, {}
    for name, solve in filters.items():
        try:
            found = differences(solve, x, grad, expected)
        except (ImportError, OSError):  # torchaudio loads libraries of CUDA, unless for a CPU
            study.miss(case, name, "not installed, or not for this torch")
            continue
        assert max(found[:2]) < SIGNALS, (name, found)
        assert max(found[2:]) < SUMS, (name, found)
        study.notes[f"largest differences from float64, {name}: y, x, b, a"] = found
        forward[name] = partial(solve, *plain)
        both[name] = partial(differentiate, solve, tensors, grad)
    del expected, wide
    repetitions = 1 if arguments.quick else 3
    about = {"dtype": "float32", "shape": [ROWS, steps], "steps": ROWS * steps}
    study.compare(f"{case}, forward", forward, repetitions, **about)
    times = study.compare(f"{case}, forward and backward", both, repetitions, **about)
    for name in list(both)[1:]:
        wanted = PEERS[name][1]
        study.ratio(f"forward and backward: {name} over mgrec", times[name], times["mgrec"], wanted)


QUICK = {"--quick": {"action": "store_true", "help": "short signals, to see that it works"}}

if __name__ == "__main__":
    Command("gradients", __doc__, measure, options=QUICK).main()
