"""Filters of rows side by side in memory: sums of exponentials, and averages over windows without drift."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ..engines.cpu.compilation import INLINED, INNER, compile_kernel
from ..engines.cpu.scalars import smaller_of
from ..engines.cpu.stack import stack_empty, stack_zeros


@numba.njit(**INLINED)
def _load(states: Any, group: int, first: int, re: Any, im: Any) -> None:
    """Copy the states of a group, from the part `first` on."""
    for k in range(len(re)):
        for lane in range(re.shape[1]):
            re[k, lane] = states[group, first + k, lane]
            im[k, lane] = states[group, first + len(re) + k, lane]


@numba.njit(**INNER)
def _add(weights: Any, x: Any, group: int, first: int, states: Any) -> None:
    """Add weighted sums of the steps of a group to its states, from the first of the steps on."""
    for k in range(len(weights)):
        for i in range(weights.shape[1]):
            weight = weights[k, i]
            for lane in range(x.shape[2]):
                states[group, k, lane] += weight * x[group, first + i, lane]


@numba.njit(**INLINED)
def _advance(values: Any, poles: Any, weights: Any, re: Any, im: Any, total: Any) -> None:
    """Add the weighted states to the totals of a step, and its values to the states."""
    for k in range(len(re)):
        pole_re, pole_im = poles[0, k], poles[1, k]
        weight_re, weight_im = weights[0, k], weights[1, k]
        for lane in range(len(values)):
            c, d = re[k, lane], im[k, lane]
            total[lane] += weight_re * c - weight_im * d
            re[k, lane] = values[lane] + (pole_re * c - pole_im * d)
            im[k, lane] = pole_re * d + pole_im * c


def _filter_lanes(x: Any, states: Any, weights: Any, coefficients: Any, sums: Any) -> None:
    """Write filtered samples x (groups, steps, lanes) to `sums`.

    The states (groups, 4·poles, lanes) are the real and imaginary parts of those before the samples,
    and of those after. Weighted sums of the first and of the last samples are added to them: the
    weights are two arrays (4·poles, samples), or (0, 0) for none. The coefficients are poles and the
    weights of both passes, real and imaginary parts (2, poles), and the weight h[0].
    """
    poles, behind, ahead, middle = coefficients
    groups, steps, lanes = x.shape
    count = poles.shape[1]
    re, im = stack_zeros((count, lanes), np.float64), stack_zeros((count, lanes), np.float64)
    total = stack_empty(lanes, np.float64)
    for group in range(groups):
        _add(weights[0], x, group, np.int64(0), states)
        _add(weights[1], x, group, steps - weights[1].shape[1], states)
        _load(states, group, np.int64(0), re, im)
        for i in range(steps):
            for lane in range(lanes):
                total[lane] = middle * x[group, i, lane]
            _advance(x[group, i], poles, behind, re, im, total)
            for lane in range(lanes):
                sums[group, i, lane] = total[lane]
        _load(states, group, 2 * count, re, im)
        for i in range(steps - 1, -1, -1):
            for lane in range(lanes):
                total[lane] = sums[group, i, lane]
            _advance(x[group, i], poles, ahead, re, im, total)
            for lane in range(lanes):
                sums[group, i, lane] = total[lane]


filter_lanes = compile_kernel(_filter_lanes, allocates=False)


def _average_lanes(x: Any, border: Any, ends: Any) -> None:
    """Average over windows of samples x (groups, steps, lanes), in place: at the start of each window.

    Steps are in blocks of the size of a window. A window is the end of a block and the start of the
    next one. The sums of both start at their common border (van Herk 1992), and none is ever
    subtracted. The border is (before, sources, constants): samples begin `before` steps after the
    first. The steps before and after them are copies of the samples that `sources` names, or −1 for
    the constant of even or of odd lanes. `ends` is memory (size, lanes).
    """
    before, sources, constants = border
    groups, steps, lanes = x.shape
    size = len(ends)
    count = steps - size + 1
    sums = stack_empty(lanes, np.float64)
    for group in range(groups):
        for k in range(len(sources)):
            source, step = sources[k], k if k < before else steps - len(sources) + k
            for lane in range(lanes):
                value = x[group, before + source, lane] if source >= 0 else constants[lane & 1]
                x[group, step, lane] = value
        for start in range(0, count, size):
            for lane in range(lanes):
                sums[lane] = 0.0
            for r in range(size - 1, -1, -1):
                for lane in range(lanes):
                    sums[lane] += x[group, start + r, lane]
                    ends[r, lane] = sums[lane]
            for lane in range(lanes):
                sums[lane] = 0.0
                x[group, start, lane] = ends[0, lane] / size
            for r in range(1, smaller_of(size, count - start)):
                for lane in range(lanes):
                    sums[lane] += x[group, start + size + r - 1, lane]
                    x[group, start + r, lane] = (ends[r, lane] + sums[lane]) / size


average_lanes = compile_kernel(_average_lanes, allocates=False)
