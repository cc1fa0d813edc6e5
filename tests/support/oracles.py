"""What a recurrence should give: plain loops over the steps, in NumPy, all rows at once.

Every oracle takes arrays and scalars that broadcast and the state before the first step. In the
dtype of the recurrence it is the sequential loop that docstrings speak of; in a wide dtype it is
the answer that errors are measured against.
"""

import numpy as np

WIDE = {"f": np.longdouble, "c": np.clongdouble, "i": np.int64, "u": np.uint64}


def steps_of(arrays, axis, reverse):
    """Yield, in the order of the recurrence, where a step is and the operands at it."""
    arrays = np.broadcast_arrays(*arrays)
    length = arrays[0].shape[axis]
    for i in range(length - 1, -1, -1) if reverse else range(length):
        at = [slice(None)] * arrays[0].ndim
        at[axis] = i
        yield tuple(at), i, tuple(array[tuple(at)] for array in arrays)


def loop(step, operands, initial, dtype, axis=-1, reverse=False):
    """Run ``state = step(state, *operands)``, all arithmetic in one dtype.

    A state is an array, or a tuple of arrays; so is the result.
    """
    arrays = [np.asarray(operand).astype(dtype) for operand in operands]
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    rows = tuple(np.delete(shape, axis)) if len(shape) > 1 else ()
    is_several = isinstance(initial, tuple)
    states = tuple(
        np.broadcast_to(np.asarray(state).astype(dtype), rows)
        for state in (initial if is_several else (initial,))
    )
    results = tuple(np.empty(shape, dtype) for _ in states)
    with np.errstate(all="ignore"):
        for at, _, values in steps_of(arrays, axis, reverse):
            states = step(states if is_several else states[0], *values)
            states = states if is_several else (states,)
            for result, state in zip(results, states, strict=True):
                result[at] = state
    return results if is_several else results[0]


def linear(w, s, t):
    return s * w + t


def rational(p, a, b, c, d):
    """One step in homogeneous coordinates, so that infinity is a state like any other."""
    x = np.where(np.isinf(p), np.copysign(1, p), p)
    y = np.where(np.isinf(p), 0, np.ones_like(p))
    return (a * x + b * y) / (c * x + d * y)


def max_plus(w, s, c):
    return np.maximum(w + s, c)


def min_plus(w, s, c):
    return np.minimum(w + s, c)


def matrix2(state, a, b, c, d, e, f):
    x, y = state
    return a * x + b * y + e, c * x + d * y + f


def linear_bound(s, t, initial, dtype, axis=-1, reverse=False):
    """(exact, bound): the bound of linear_recurrence's docstring, inf where it promises none."""
    dtype = np.dtype(dtype)
    kind, info = dtype.kind, np.finfo(dtype)
    exact = loop(linear, (s, t), initial, WIDE[kind], axis, reverse)
    sizes = (np.abs(s), np.abs(t))
    size = loop(linear, sizes, np.abs(initial), np.longdouble, axis, reverse)
    count = loop(linear, (sizes[0], np.ones_like(sizes[1])), 0, np.longdouble, axis, reverse)
    number = step_numbers(size, axis, reverse)
    factor = 4 if kind == "c" else 1
    with np.errstate(all="ignore"):
        unit, smallest = np.longdouble(info.eps) / 2, np.longdouble(info.smallest_subnormal)
        bound = factor * (4 * (number + 1) * unit * size + 4 * smallest * count)
        promised = stays(size <= info.max, axis, reverse)
    return exact, np.where(promised, bound, np.inf)


def stays(condition, axis, reverse):
    """Whether a condition has held at every step so far."""
    flipped = np.flip(condition, axis) if reverse else condition
    held = np.logical_and.accumulate(flipped, axis)
    return np.flip(held, axis) if reverse else held


def differences(result, sequential):
    """Places whose nan, +inf or -inf differ; for complex numbers whose finiteness differs."""
    if result.dtype.kind == "c":
        return np.argwhere(np.isfinite(result) != np.isfinite(sequential))
    with np.errstate(all="ignore"):
        same = (
            (np.isnan(result) & np.isnan(sequential))
            | (np.isinf(result) & (result == sequential))
            | (np.isfinite(result) & np.isfinite(sequential))
        )
    return np.argwhere(~same)


def size_bound(step, size, operands, initial, dtype, factor, axis=-1, reverse=False):
    """(exact, factor·(i + 1)·u·size_i): `size` is the recurrence of the operands' magnitudes."""
    dtype = np.dtype(dtype)
    exact = loop(step, operands, initial, WIDE[dtype.kind], axis, reverse)
    if dtype.kind in "iu":
        wrapped = map_states(lambda x: x.astype(dtype), exact)
        return wrapped, map_states(lambda x: np.zeros(x.shape), exact)
    states = map_states(np.abs, initial)
    sizes = loop(size, list(map(np.abs, operands)), states, np.longdouble, axis, reverse)
    number = step_numbers(exact[0] if isinstance(exact, tuple) else exact, axis, reverse)
    unit = np.longdouble(np.finfo(dtype).eps) / 2
    return exact, map_states(lambda x: factor * (number + 1) * unit * x, sizes)


def rational_bound(a, b, c, d, initial, dtype, axis=-1, reverse=False):
    """(exact, bound) of rational_recurrence's docstring."""

    def both(state, a, b, c, d):
        # (x, y) and (X, Y), with a common scale so that neither overflows.
        x, y, most_x, most_y = state
        x, y = a * x + b * y, c * x + d * y
        most_x, most_y = (np.abs(a) * most_x + np.abs(b) * most_y, np.abs(c) * most_x + np.abs(d) * most_y)
        scale = np.maximum(most_x, most_y)
        return x / scale, y / scale, most_x / scale, most_y / scale

    start = (initial, np.ones_like(initial), np.abs(initial), np.ones_like(initial))
    x, y, most_x, most_y = loop(both, (a, b, c, d), start, np.longdouble, axis, reverse)
    number = step_numbers(x, axis, reverse)
    unit = np.longdouble(np.finfo(dtype).eps) / 2
    with np.errstate(all="ignore"):
        exact = x / y
        return exact, 8 * (number + 1) * unit * (most_x + np.abs(exact) * most_y) / np.abs(y)


def step_numbers(like, axis, reverse):
    """1 at the first step, 2 at the second, ..., shaped to broadcast along the axis."""
    steps = like.shape[axis]
    number = np.arange(steps, 0, -1) if reverse else np.arange(1, steps + 1)
    return number.reshape([-1 if k == axis % like.ndim else 1 for k in range(like.ndim)])


def map_states(function, states):
    return tuple(map(function, states)) if isinstance(states, tuple) else function(states)
