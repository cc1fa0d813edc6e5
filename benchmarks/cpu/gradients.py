"""Filters inside torch on a CPU, forward and backward, against torchaudio, torchlpc and philtorch.

Each candidate computes the gradients of the signal and of the coefficients. torchlpc has a
recursive filter whose coefficients vary in time, which are expanded; torch computes its numerator.
philtorch is asked for its fastest form for this filter, "df1".

usage: python -m benchmarks.cpu.gradients [--quick] [--out FOLDER] [--plot RESULT]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from mgrec import signal
from mgrec.engines.cpu.threads import thread_count

from ..harness.command import run
from ..harness.study import Study
from .recurrences import draw

try:
    import torch
except ImportError:
    torch = None
try:
    from torchaudio.functional import lfilter as torchaudio_lfilter
except (ImportError, OSError):  # torchaudio loads libraries of CUDA, unless built for a CPU
    torchaudio_lfilter = None
try:
    from torchlpc import sample_wise_lpc
except ImportError:
    sample_wise_lpc = None
try:
    from philtorch.lti import lfilter as philtorch_lfilter
except ImportError:
    philtorch_lfilter = None

ROWS, STEPS, QUICK_STEPS = 64, 1 << 20, 1 << 14
B, A = (0.2, 0.3, 0.1), (1.0, -1.2, 0.5)
# How many times as fast as the peers.
WANTED_TORCHAUDIO, WANTED_OTHERS = 3.0, 2.0
# Largest differences from the gradients in float64, as parts of the largest entry.
SIGNALS, SUMS = 1e-5, 1e-3


def by_mgrec(b: Any, a: Any, x: Any) -> Any:
    return signal.lfilter(b, a, x)


def by_torchaudio(b: Any, a: Any, x: Any) -> Any:
    return torchaudio_lfilter(x, a, b, clamp=False)


def by_torchlpc(b: Any, a: Any, x: Any) -> Any:
    padded = torch.nn.functional.pad(x, (len(b) - 1, 0))[:, None]
    moving = torch.nn.functional.conv1d(padded, b.flip(0)[None, None])[:, 0]
    return sample_wise_lpc(moving, a[1:].expand(*x.shape, len(a) - 1))


def by_philtorch(b: Any, a: Any, x: Any) -> Any:
    return philtorch_lfilter(b, a[1:], x, form="df1")


PEERS = {
    "torchaudio": (torchaudio_lfilter, by_torchaudio, WANTED_TORCHAUDIO),
    "torchlpc": (sample_wise_lpc, by_torchlpc, WANTED_OTHERS),
    "philtorch": (philtorch_lfilter, by_philtorch, WANTED_OTHERS),
}


def differentiate(
    filtered: Callable[..., Any], x: Any, grad: Any, dtype: Any = None
) -> tuple[Any, ...]:
    """Return y, and the gradients of x, of b, and of a without a_0."""
    dtype = dtype or x.dtype
    x = x.detach().to(dtype).requires_grad_()
    b, a = (torch.tensor(c, dtype=dtype, requires_grad=True) for c in (B, A))
    y = filtered(b, a, x)
    of_x, of_b, of_a = torch.autograd.grad(y, (x, b, a), grad.to(dtype))
    return y.detach(), of_x, of_b, of_a[1:]


def check(study: Study, name: str, results: Any, expected: Any) -> None:
    """Compare the results of a candidate with those in float64."""
    differences = [
        float((result - wanted).abs().max() / wanted.abs().max())
        for result, wanted in zip(results, expected, strict=True)
    ]
    assert max(differences[:2]) < SIGNALS, (name, differences)
    assert max(differences[2:]) < SUMS, (name, differences)
    study.notes[f"largest differences from float64, {name}: y, x, b, a"] = differences


def measure(study: Study, arguments: argparse.Namespace) -> None:
    case, steps = "lfilter, order 2", QUICK_STEPS if arguments.quick else STEPS
    if torch is None:
        study.miss(case, "mgrec", "torch is not installed")
        return
    torch.set_num_threads(thread_count())
    random = np.random.default_rng(0)
    x, grad = (
        torch.from_numpy(random.standard_normal((ROWS, steps), dtype=np.float32)) for _ in range(2)
    )
    expected = differentiate(by_mgrec, x, grad, torch.float64)
    forward, both = {"mgrec": by_mgrec}, {}
    for name, (function, filtered, _) in PEERS.items():
        if function is None:
            study.miss(case, name, "not installed, or not for this torch")
        else:
            forward[name] = filtered
    for name, filtered in forward.items():
        check(study, name, differentiate(filtered, x, grad), expected)
        both[name] = lambda filtered=filtered: differentiate(filtered, x, grad)
    del expected
    b, a = torch.tensor(B), torch.tensor(A)
    calls = {
        name: lambda filtered=filtered: filtered(b, a, x) for name, filtered in forward.items()
    }
    repetitions = 1 if arguments.quick else 3
    about = {"dtype": "float32", "shape": [ROWS, steps], "steps": ROWS * steps}
    study.compare(f"{case}, forward", calls, repetitions, **about)
    times = study.compare(f"{case}, forward and backward", both, repetitions, **about)
    for name in list(both)[1:]:
        wanted = PEERS[name][2]
        study.ratio(f"forward and backward: {name} over mgrec", times[name], times["mgrec"], wanted)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="short signals, to see that it works")
    run("gradients", measure, draw, parser)
