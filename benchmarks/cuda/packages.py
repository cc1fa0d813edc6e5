"""Peers on the GPU from Python packages; each raises ImportError where it is not installed."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..harness.machine import optional
from .candidates import Candidate

cupy = optional("cupy")


def combine(earlier: Any, later: Any) -> Any:
    return earlier[0] * later[0], later[0] * earlier[1] + later[1]


def compute_arrays(s: Any, t: Any) -> Candidate:
    """cuda.compute over a zip of both arrays, which writes the states alone."""
    compute = _import_compute()
    affine = compute.gpu_struct({"s": t.dtype, "t": t.dtype}, "Affine")

    def state(pair: affine) -> t.dtype.type:
        return pair.t

    w = cupy.empty(t.size, t.dtype)
    output = compute.TransformOutputIterator(w, state)
    return Candidate(_compute(affine, compute.ZipIterator(s, t), output, t.size), w)


def compute_pairs(s: Any, t: Any) -> Candidate:
    """cuda.compute over an array of pairs, into one: 4 words a step."""
    compute = _import_compute()
    affine = compute.gpu_struct({"s": t.dtype, "t": t.dtype}, "Affine")
    pairs, results = cupy.stack((s, t), axis=-1), cupy.empty((t.size, 2), t.dtype)
    structs = [x.view(cupy.uint8).reshape(-1) for x in (pairs, results)]
    arrays = [cupy.ndarray(t.size, affine.dtype, x.data) for x in structs]
    return Candidate(_compute(affine, *arrays, t.size), results[:, 1])


def _import_compute() -> Any:
    # numba-cuda 0.30 uses names that NumPy 2.5 removed.
    vars(np).setdefault("row_stack", np.vstack)
    from cuda import compute

    return compute


def _compute(affine: Any, values: Any, output: Any, count: int) -> Callable[[], None]:
    compute = _import_compute()

    def compose(earlier: affine, later: affine) -> affine:
        return affine(earlier.s * later.s, later.s * earlier.t + later.t)

    first = affine(1, 0)
    scan = compute.make_inclusive_scan(d_in=values, d_out=output, op=compose, init_value=first)
    arguments = {"d_in": values, "d_out": output, "op": compose, "init_value": first}
    size = scan(temp_storage=None, num_items=count, **arguments)
    space = cupy.empty(max(size, 1), cupy.uint8)
    return lambda: scan(temp_storage=space, num_items=count, **arguments)


def as_torch(*arrays: Any) -> tuple[Any, ...]:
    import torch

    return tuple(torch.from_dlpack(array) for array in arrays)


def accelerated_triton(s: Any, t: Any, block: int | None = None, warps: int | None = None) -> Candidate:
    """accelerated-scan's Triton kernel, as it comes or with other sizes."""
    from accelerated_scan.scalar import forward_scan, scan

    gates, tokens = as_torch(s[None], t[None])
    if block is None:
        return Candidate(lambda: scan(gates, tokens)[0])
    w = cupy.empty_like(t)
    (states,) = as_torch(w[None])
    sizes = {"seqlen": t.shape[1], "BLOCK": block, "num_warps": warps, "enable_fp_fusion": False}
    return Candidate(lambda: forward_scan[(1, t.shape[0])](gates, tokens, states, **sizes), w)


def accelerated_warp(s: Any, t: Any) -> Candidate:
    """accelerated-scan's CUDA kernel, into a result that exists."""
    from accelerated_scan.warp import warpscan_forward

    w = cupy.empty_like(t)
    gates, tokens, states = as_torch(s[None], t[None], w[None])
    return Candidate(lambda: warpscan_forward(gates, tokens, states, False), w)


def torch_scan(s: Any, t: Any) -> Candidate:
    """torch.compile of associative_scan."""
    import torch
    from torch._higher_order_ops.associative_scan import associative_scan

    def scan(s: Any, t: Any) -> Any:
        return associative_scan(combine, (s, t), 0, combine_mode="pointwise")[1]

    operands, compiled = as_torch(s, t), torch.compile(scan)
    return Candidate(lambda: compiled(*operands))


def jax_scan(s: Any, t: Any) -> Candidate:
    """jax.lax.associative_scan under jit; to be timed by the host: jax has streams of its own."""
    import jax

    operands = [jax.dlpack.from_dlpack(array) for array in (s, t)]
    scan = jax.jit(lambda s, t: jax.lax.associative_scan(combine, (s, t))[1])
    return Candidate(lambda: scan(*operands).block_until_ready())


def filter_constant(s: Any, t: Any) -> Candidate:
    """cupyx.scipy.signal.lfilter, order 1."""
    from cupyx.scipy.signal import lfilter

    numerator, denominator = cupy.ones(1, t.dtype), cupy.asarray([1, -float(s)], t.dtype)
    return Candidate(lambda: lfilter(numerator, denominator, t))


def cumulative_sum(t: Any) -> Candidate:
    return Candidate(lambda: cupy.cumsum(t))


def torch_sum(t: Any) -> Candidate:
    import torch

    (tensor,) = as_torch(t)
    return Candidate(lambda: torch.cumsum(tensor, 0))


def evaluate_coefficient(count: int, t: Any) -> Candidate:
    """The arithmetic of a coefficient alone, in a loop over the steps: what no scan can beat.

    In float64, as a function of an integer index is in NumPy.
    """
    kernel = cupy.ElementwiseKernel(
        "T t",
        "T w",
        f"""double x = 0.5 + 1e-9 * i;
        for (int k = 0; k < {count}; ++k) x = x * 1.25 / 1.250001;
        w = T(x) + t;""",
        "evaluate_coefficient",
    )
    w = cupy.empty_like(t)
    return Candidate(lambda: kernel(t, w), words=2)
