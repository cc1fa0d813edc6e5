"""Functions with adjoints, for each axis and direction: calls, their adjoints, and arguments."""

from dataclasses import dataclass
from functools import partial

import numpy as np

import mgrec
from mgrec import adjoint, hmm, maps, ndimage, signal, statespace

ROWS, STEPS = 3, 9
GAPS = np.array([0.0, 1.0, 3.0, 4.0, 6.0, 7.0, 7.5, 9.0, 10.0])
MARKS = np.array([0, 0, 1, 0, 0, 0, 1, 0, 0], bool)


@dataclass(frozen=True)
class Case:
    """A call, as a function of arrays alone.

    Attributes
    ----------
    function : callable, ``(*arrays) -> result or tuple of results``
    adjoint : callable, ``(gradients, results, *arrays) -> tuple of gradients``
        Takes a tuple of gradients and a tuple of results.
    arrays : tuple
    loop : callable, optional
        The function for complex arrays, if it is one of real arrays: for tangents by complex steps.
    in_memory : tuple of int
        Places of arrays that may not be Dask arrays.
    """

    function: object
    adjoint: object
    arrays: tuple
    loop: object = None
    in_memory: tuple = ()


def numbers(*shape, seed=0, is_complex=False):
    random = np.random.default_rng([seed, *shape])
    values = random.uniform(-0.9, 0.9, shape)
    return values + 1j * random.uniform(-0.9, 0.9, shape) if is_complex else values


def shape_of(axis, steps=STEPS):
    """The shape of an array with an axis of so many steps; axis 0 or 1 of two."""
    return (steps, ROWS) if axis == 0 else (ROWS, steps)


def recurrence(axis, reverse, *arrays, marks=None):
    options = {"axis": axis, "reverse": reverse, "reset": marks}
    as_scan = scan(
        maps.affine, lambda s, t, w: (s * w + t,), axis, reverse, arrays[:2], arrays[2:], marks=marks
    )
    return Case(
        partial(mgrec.linear_recurrence, **options),
        lambda g, y, *arrays: adjoint.linear_recurrence(*g, *y, *arrays, **options),
        arrays,
        lambda s, t, initial: as_scan.loop(s, t, 0.0 if initial is None else initial),
    )


def lfilter(axis, b, a, x, zi=None, marks=None, form="transposed", loop=None):
    return Case(
        lambda b, a, x, zi: signal.lfilter(b, a, x, axis, zi, form=form, reset=marks),
        lambda g, y, *arrays: adjoint.lfilter(
            g[0], y[0], *arrays[:3], axis, arrays[3], form=form, reset=marks, grad_zf=(*g, None)[1]
        ),
        (b, a, x, zi),
        loop,
    )


def sosfilt(axis, sos, x, zi=None, marks=None):
    return Case(
        lambda sos, x, zi: signal.sosfilt(sos, x, axis, zi, reset=marks),
        lambda g, y, *arrays: adjoint.sosfilt(
            g[0], y[0], *arrays[:2], axis, arrays[2], reset=marks, grad_zf=(*g, None)[1]
        ),
        (sos, x, zi),
    )


def tridiagonal(axis, periodic, *arrays, rhs_axis=None):
    options = {"periodic": periodic, "rhs_axis": rhs_axis}
    if axis != 1:  # the default
        options["axis"] = axis

    def dense(*arrays):
        diagonals, b = arrays[:3], np.moveaxis(arrays[3], axis, -1)
        below, diagonal, above = (
            np.broadcast_to(x if np.ndim(x) < 2 else np.moveaxis(x, axis, -1), b.shape) for x in diagonals
        )
        matrix = np.zeros((*b.shape, b.shape[-1]), np.result_type(*arrays))
        k = np.arange(b.shape[-1])
        matrix[..., k, k] = diagonal
        matrix[..., k[1:], k[:-1]], matrix[..., k[:-1], k[1:]] = below[..., 1:], above[..., :-1]
        if periodic:
            matrix[..., 0, -1], matrix[..., -1, 0] = below[..., 0], above[..., -1]
        return np.moveaxis(np.linalg.solve(matrix, b[..., None])[..., 0], -1, axis)

    return Case(
        partial(mgrec.solve_tridiagonal, **options),
        lambda g, y, *arrays: adjoint.solve_tridiagonal(*g, *y, *arrays, **options),
        arrays,
        dense,
    )


def banded(axis, periodic, *arrays):
    options = {"axis": axis, "periodic": periodic}
    return Case(
        partial(mgrec.solve_banded, (1, 2), **options),
        lambda g, x, *arrays: adjoint.solve_banded(*g, *x, (1, 2), *arrays, **options),
        arrays,
    )


def blocks(axis, periodic, *arrays):
    options = {"axis": axis, "periodic": periodic}
    return Case(
        partial(mgrec.solve_block_tridiagonal, **options),
        lambda g, x, *arrays: adjoint.solve_block_tridiagonal(*g, *x, *arrays, **options),
        arrays,
    )


def ewm(x, **options):
    return Case(partial(signal.ewm, **options), lambda g, y, x: (adjoint.ewm(*g, x, **options),), (x,))


def scan(transfer_map, step, axis, reverse, operands, initial, is_matrix=False, marks=None):
    """A scan; `step` of a loop takes operands and states of a step, and returns a tuple of states.

    Several initial states are states that are tuples.
    """
    count, options = len(operands), {"axis": axis, "reverse": reverse, "reset": marks}
    starts = np.zeros(STEPS, bool) if marks is None else MARKS

    def states_of(arrays):
        return arrays[count:] if len(initial) > 1 else arrays[count]

    def call(*arrays):
        return mgrec.scan(transfer_map, *arrays[:count], initial=states_of(arrays), **options)

    def differentiate(g, w, *arrays):
        g, w = (g, w) if len(initial) > 1 else (g[0], w[0])
        *of_operands, of_initial = adjoint.scan(
            g, w, transfer_map, *arrays[:count], initial=states_of(arrays), **options
        )
        return *of_operands, *(of_initial if len(initial) > 1 else (of_initial,))

    def loop(*arrays):
        trailing = [2 - is_diagonal(transfer_map), 1] if is_matrix else [0] * count
        leading = [np.shape(x)[: np.ndim(x) - k] for x, k in zip(arrays, trailing, strict=False)]
        shape = np.broadcast_shapes(*leading)
        full = [
            np.broadcast_to(x, (*shape, *np.shape(x)[np.ndim(x) - k :]))
            for x, k in zip(arrays, trailing, strict=False)
        ]
        states, steps = arrays[count:], []
        for k in range(shape[axis])[:: -1 if reverse else 1]:
            states = arrays[count:] if starts[k] else states
            states = step(*(x[(slice(None),) * axis + (k,)] for x in full), *states)
            steps.append(states)
        results = [np.stack(w[:: -1 if reverse else 1], axis) for w in zip(*steps, strict=True)]
        return tuple(results) if len(initial) > 1 else results[0]

    return Case(call, differentiate, (*operands, *initial), loop)


def is_diagonal(matrix_map):
    return matrix_map.structure == "diagonal"


def matrix_step(matrix_map):
    """A step of a matrix map, for complex numbers, which real parts order."""

    def step(M, b, w):
        is_general = not is_diagonal(matrix_map)
        if matrix_map.algebra == ("+", "*"):
            return ((M @ w[..., None])[..., 0] + b if is_general else M * w + b,)
        terms = M + w[..., None, :] if is_general else (M + w)[..., None]
        terms = np.concatenate([terms, b[..., None]], -1)
        if matrix_map.algebra == ("logsumexp", "+"):
            return (np.log(np.exp(terms).sum(-1)),)
        sign = 1 if matrix_map.algebra[0] == "max" else -1
        best = np.argmax(sign * terms.real, -1)
        return (np.take_along_axis(terms, best[..., None], -1)[..., 0],)

    return step


PRODUCTS = mgrec.TransferMap(
    lift=lambda x: (x,),
    compose=lambda earlier, later: (earlier[0] * later[0],),
    apply=lambda step, w: step[0] * w,
    identity=(1.0,),
    name="products",
    vjp=lambda grad, w, x: (x * grad, w * grad),
)


def scans(marks=None):
    """Scans and rational recurrences of real arrays; the first operand of each broadcasts.

    States are reset at `marks`, those of MARKS.
    """
    found = {}
    for axis in (0, 1):
        shape = shape_of(axis)
        rows, constant = (ROWS,), shape_of(axis, 1)
        for reverse in (False, True):
            name = f"along axis {axis}{' in reverse' * reverse}"

            def add(kind, *arguments, name=name, axis=axis, reverse=reverse, **options):
                transfer_map, step, operands, initial = arguments
                found[f"{kind} {name}"] = scan(
                    transfer_map, step, axis, reverse, operands, initial, marks=marks, **options
                )

            def positive(*shape, seed=0):
                return numbers(*shape, seed=seed) + 1.5

            coefficients = [positive(*shape, seed=k) for k in range(3)]
            add(
                "rational",
                maps.mobius,
                lambda a, b, c, d, p: ((a * p + b) / (c * p + d),),
                (positive(*constant), *coefficients),
                (positive(*rows),),
            )
            add("products", PRODUCTS, lambda x, w: (x * w,), (positive(*shape),), (positive(*rows),))
            add(
                "larger",
                maps.max_plus,
                lambda s, c, w: (np.where((w + s).real > c.real, w + s, c),),
                (numbers(*constant), numbers(*shape)),
                (numbers(*rows),),
            )
            add(
                "pairs",
                maps.matrix2,
                lambda a, b, c, d, e, f, x, y: (a * x + b * y + e, c * x + d * y + f),
                (numbers(*constant), *[numbers(*shape, seed=k) for k in range(5)]),
                (numbers(*rows), numbers(*rows, seed=1)),
            )
            kinds = [
                (("+", "*"), "general"),
                (("+", "*"), "diagonal"),
                (("max", "+"), "general"),
                (("min", "+"), "diagonal"),
                (("logsumexp", "+"), "general"),
            ]
            for algebra, structure in kinds:
                matrix = maps.matrix(3, algebra, structure)
                size = (3,) if structure == "diagonal" else (3, 3)
                for leading in (shape, ()):
                    kind = f"{structure} matrix{'' if leading else ' of all steps'} ({algebra[0]})"
                    add(
                        kind,
                        matrix,
                        matrix_step(matrix),
                        (numbers(*leading, *size), numbers(*shape, 3)),
                        (numbers(*rows, 3),),
                        is_matrix=True,
                    )
    return found


def hidden_states(axis, marks, *arrays):
    """The log-likelihood of observations with sequences that start at `marks`, or None."""
    options = {"axis": axis, "reset": marks}
    starts = np.zeros(STEPS, bool) if marks is None else MARKS

    def loop(startprob, transmat, log_frameprob):
        matrices = np.broadcast_to(transmat, (*log_frameprob.shape, 3))
        llf, weights = 0, startprob
        for k in range(STEPS):
            step = (slice(None),) * axis + (k,)
            is_first = k == 0 or starts[k]
            before = startprob if is_first else (weights[..., None] * matrices[step]).sum(-2)
            weights = before * np.exp(log_frameprob[step])
            total = weights.sum(-1, keepdims=True)
            llf, weights = llf + np.log(total[..., 0]), weights / total
        return llf

    return Case(
        lambda *arrays: hmm.log_likelihood(*arrays, **options),
        lambda g, llf, *arrays: adjoint.hmm_log_likelihood(*g, *arrays, **options),
        arrays,
        loop,
    )


def transposed(matrices):
    return matrices.swapaxes(-1, -2)


STATE_SPACE = (
    "endog",
    "design",
    "obs_cov",
    "transition",
    "state_cov",
    "initial_state",
    "initial_state_cov",
    "selection",
    "obs_intercept",
    "state_intercept",
)


def state_space(axis, marks, *arrays):
    """The log-likelihood of a state space model, of arrays in the order of STATE_SPACE."""
    options = {"axis": axis, "reset": marks}
    starts = np.zeros(STEPS, bool) if marks is None else MARKS

    def named(arrays):
        return dict(zip(STATE_SPACE, arrays, strict=True))

    def loop(y, Z, H, T, Q, first, first_cov, R, d, c):
        llf, rows = 0, (*y.shape[:axis], *y.shape[axis + 1 : -1])
        for k in range(STEPS):
            step = (slice(None),) * axis + (k,)
            Zt, Ht, Tt, Qt, Rt = (
                x if x.ndim == 2 else x[step] for x in (Z, symmetric(H), T, symmetric(Q), R)
            )
            if k == 0 or starts[k]:
                a = np.broadcast_to(first, (*rows, first.shape[-1]))[..., None]
                P = symmetric(first_cov)
            seen = ~np.isnan(y[step].real)
            v = np.where(seen[..., None], (y[step] - d)[..., None] - Zt @ a, 0)
            Zt = np.where(seen[..., None], Zt, 0)
            both = seen[..., None] & seen[..., None, :]
            F = Zt @ P @ transposed(Zt) + np.where(both, Ht, np.eye(2))
            inverse = np.linalg.inv(F)
            llf = llf - 0.5 * (seen.sum(-1) * np.log(2 * np.pi) + np.log(np.linalg.det(F)))
            llf = llf - 0.5 * (transposed(v) @ inverse @ v)[..., 0, 0]
            gain = P @ transposed(Zt) @ inverse
            a = Tt @ (a + gain @ v) + c[..., None]
            P = Tt @ (P - gain @ Zt @ P) @ transposed(Tt) + Rt @ Qt @ transposed(Rt)
        return llf

    return Case(
        lambda *arrays: statespace.log_likelihood(**named(arrays), **options),
        lambda g, llf, *arrays: adjoint.statespace_log_likelihood(*g, **named(arrays), **options),
        arrays,
        loop,
        in_memory=(5, 6),
    )


def symmetric(matrices):
    return 0.5 * (matrices + transposed(matrices))


def state_space_arrays(axis, steps=(), has_gaps=False):
    """Arrays of a model of 3 states, 2 noises and 2 entries of an observation."""

    def covariance(*shape):
        root = numbers(*shape)
        return root @ transposed(root) + np.eye(shape[-1])

    endog = numbers(*shape_of(axis), 2)
    if has_gaps:
        endog[1, 1, 0] = endog[2, 2] = np.nan
    return (
        endog,
        numbers(*steps, 2, 3),
        covariance(*steps, 2, 2),
        0.5 * numbers(*steps, 3, 3),
        covariance(*steps, 2, 2),
        numbers(ROWS, 3),
        covariance(3, 3),
        numbers(*steps, 3, 2),
        numbers(2),
        numbers(3),
    )


def below_one(weights):
    """Return weights whose sums along the last axis are below 1."""
    return weights / (1.25 * weights.sum(-1, keepdims=True))


def likelihoods(smallest=0.0, has_gaps=True, marks=None):
    """Log-likelihoods of models whose last state has a probability near `smallest` at first."""
    found = {}
    for axis in (0, 1):
        shape = shape_of(axis)
        start, matrix = abs(numbers(3)), abs(numbers(3, 3)) * np.tri(3)[::-1]
        start[2] = matrix[0, 2] = 0
        start, matrix = (below_one(np.maximum(below_one(x), smallest)) for x in (start, matrix))
        frames = numbers(*shape, 3)
        frames[1, 1] = 0.0, -800.0, -700.0
        name = f"along axis {axis}"
        found[f"hidden states {name}"] = hidden_states(axis, marks, start, matrix, frames)
        matrices = below_one(abs(numbers(*shape, 3, 3)) * (matrix > 0))
        starts = below_one(abs(numbers(ROWS, 3)) * (start > 0))
        found[f"hidden states of matrices {name}"] = hidden_states(axis, marks, starts, matrices, frames)
        for kind, steps in (("state space", ()), ("state space of matrices", shape)):
            arrays = state_space_arrays(axis, steps, has_gaps)
            found[f"{kind} {name}"] = state_space(axis, marks, *arrays)
    return found


QUICK_LIKELIHOODS = ("hidden states along axis 1", "state space along axis 1")
QUICK_SCANS = (
    "rational along axis 1 in reverse",
    "products along axis 1",
    "pairs along axis 1",
    "general matrix (+) along axis 0 in reverse",
    "general matrix of all steps (+) along axis 1",
)
"""Scans of the short run of tests."""


B, A = np.array([0.2, 0.4, -0.1]), np.array([1.25, -0.6, 0.3, 0.1])
SOS = np.array([[0.2, 0.3, 0.4, 1, 0.5, 0.2], [1, 2, 1, 1, -0.5, 0.2], [1, -1, 0.4, 1, -0.9, 0.1]])


def cases(is_complex=False):
    """All cases by name; coefficients stay real, and signals may be complex."""
    draw = partial(numbers, is_complex=is_complex)
    found = {}
    for axis in (0, 1):
        shape, rows = shape_of(axis), (ROWS,)
        for reverse in (False, True):
            arguments = draw(*shape, seed=1), draw(*shape, seed=2), draw(*rows)
            name = f"along axis {axis}{' in reverse' * reverse}"
            found[f"recurrence {name}"] = recurrence(axis, reverse, *arguments)
            found[f"constant coefficient {name}"] = recurrence(
                axis, reverse, draw(*shape_of(axis, 1)), draw(*shape), None
            )
        found[f"numbers along axis {axis}"] = recurrence(axis, False, 0.7, draw(*shape), 0.25)
        name = f"along axis {axis}"
        found[f"lfilter {name}"] = lfilter(axis, B, A, draw(*shape))
        found[f"lfilter with states {name}"] = lfilter(axis, B, A, draw(*shape), draw(*shape_of(axis, 3)))
        found[f"convolution with states {name}"] = lfilter(
            axis, B, A[:1], draw(*shape), draw(*shape_of(axis, 2))
        )
        found[f"sosfilt {name}"] = sosfilt(axis, SOS, draw(*shape))
        found[f"sosfilt with states {name}"] = sosfilt(axis, SOS, draw(*shape), draw(3, *shape_of(axis, 2)))
        for periodic in (False, True):
            diagonals = draw(*shape), draw(*shape, seed=1) + 3, draw(*shape, seed=2)
            found[f"tridiagonal{' periodic' * periodic} {name}"] = tridiagonal(
                axis, periodic, *diagonals, draw(*shape, seed=3)
            )
            bands = draw(*(ROWS,) * axis, 4, STEPS)
            bands[..., 2, :] += 4
            found[f"banded{' periodic' * periodic} {name}"] = banded(axis, periodic, bands, draw(*shape))
            matrices = draw(*shape, 2, 2), draw(*shape, 2, 2, seed=1) + 4 * np.eye(2), draw(2, 2)
            found[f"blocks{' periodic' * periodic} {name}"] = blocks(
                axis, periodic, *matrices, draw(*shape, 2)
            )
        found[f"right-hand sides {name}"] = tridiagonal(
            axis, False, draw(STEPS), draw(STEPS) + 3, -0.5, draw(*shape), rhs_axis=1 - axis
        )
    found["signal shorter than the filter"] = lfilter(1, B, A, draw(2, 2), draw(2, 3))
    return found


def segments(marks):
    """Recurrences and filters whose states are reset at `marks`, those of MARKS."""
    found = {}
    for axis in (0, 1):
        shape, rows = shape_of(axis), (ROWS,)
        for reverse in (False, True):
            name = f"along axis {axis}{' in reverse' * reverse}"
            arrays = numbers(*shape, seed=1), numbers(*shape, seed=2), numbers(*rows)
            found[f"recurrence {name}"] = recurrence(axis, reverse, *arrays, marks=marks)
            constant = numbers(*shape_of(axis, 1)), numbers(*shape), None
            found[f"constant coefficient {name}"] = recurrence(axis, reverse, *constant, marks=marks)
        name, x = f"along axis {axis}", numbers(*shape)
        found[f"lfilter {name}"] = lfilter(axis, B, A, x, marks=marks)
        zi = numbers(*shape_of(axis, 3))
        found[f"lfilter with states {name}"] = lfilter(axis, B, A, x, zi, marks)
        found[f"sosfilt {name}"] = sosfilt(axis, SOS, x, marks=marks)
        zi = numbers(3, *shape_of(axis, 2))
        found[f"sosfilt with states {name}"] = sosfilt(axis, SOS, x, zi, marks)
    return found


QUICK_SEGMENTS = ("recurrence along axis 1 in reverse", "lfilter with states along axis 1")


def varying_loop(axis, form):
    """Return a filter of coefficients that vary in time, for complex arrays."""

    def by_steps(coefficients, order):
        missing = order + 1 - coefficients.shape[-1]
        padded = np.pad(coefficients, [(0, 0)] * (coefficients.ndim - 1) + [(0, missing)])
        if padded.ndim < 3:
            return np.broadcast_to(padded, (STEPS, order + 1))[:, None]
        return np.moveaxis(padded, axis, 0)

    def loop(b, a, x, zi):
        order, results = max(b.shape[-1], a.shape[-1]) - 1, []
        b, a, x = by_steps(b, order), by_steps(a, order), np.moveaxis(x, axis, 0)
        z = np.zeros((ROWS, order)) if zi is None else np.moveaxis(zi, axis, -1)
        for taps, poles, samples in zip(b / a[..., :1], a / a[..., :1], x, strict=True):
            if form == "direct":
                latest = samples - (poles[..., 1:] * z).sum(-1)
                y = taps[..., 0] * latest + (taps[..., 1:] * z).sum(-1)
                z = np.concatenate([latest[:, None], z[:, :-1]], -1)
            else:
                y = z[:, 0] + taps[..., 0] * samples
                z = np.concatenate([z[:, 1:], np.zeros((ROWS, 1))], -1)
                z = z + taps[..., 1:] * samples[:, None] - poles[..., 1:] * y[:, None]
            results.append(y)
        y = np.stack(results, axis)
        return y if zi is None else (y, np.moveaxis(z, -1, axis))

    return loop


def varying_filters(is_complex=False):
    """Filters whose coefficients vary in time, or are constant in the direct form."""
    draw, found = partial(numbers, is_complex=is_complex), {}

    def drawn(*shape):
        coefficients = 0.6 * draw(*shape)
        coefficients[..., 0] += 1.25
        return coefficients

    for axis in (0, 1):
        shape = shape_of(axis)
        predictions = drawn(*shape, 3)
        predictions[..., 0] = 1.0
        operands = {
            "shared": (drawn(STEPS, 3), drawn(STEPS, 3), draw(*shape)),
            "of rows": (np.array([0.7]), drawn(*shape, 3), draw(*shape)),
            "of predictions": (np.ones(1), predictions, draw(*shape), draw(*shape_of(axis, 2))),
            "with states": (drawn(STEPS, 2), drawn(*shape, 4), draw(*shape), draw(*shape_of(axis, 3))),
            "without poles": (drawn(*shape, 3), np.array([1.25]), draw(*shape), draw(*shape_of(axis, 2))),
        }
        for form in ("transposed", "direct"):
            for kind, arrays in operands.items():
                name = f"varying {form} filter {kind} along axis {axis}"
                found[name] = lfilter(axis, *arrays, form=form, loop=varying_loop(axis, form))
    constant = (np.array([0.2, 0.4]), np.array([1.25, -0.6, 0.3]), draw(*shape_of(1)))
    found["varying direct filter of constants"] = lfilter(
        1, *constant, form="direct", loop=varying_loop(1, "direct")
    )
    return found


QUICK_FILTERS = ("varying transposed filter shared along axis 0",)


def means(xp=np):
    """Cases of exponentially weighted means; masks are arrays of a library."""
    x, gaps = numbers(ROWS, STEPS), numbers(ROWS, STEPS)
    gaps[0, 0] = gaps[1, 3:6] = gaps[2, 8] = np.nan
    options = {
        "adjusted": {"alpha": 0.3},
        "not adjusted": {"span": 3.0, "adjust": False},
        "ignoring gaps": {"com": 1.5, "ignore_na": True, "min_periods": 2},
        "of times": {"halflife": 2.0, "times": GAPS},
        "of segments": {"alpha": 0.5, "reset": xp.asarray(MARKS)},
    }
    found = {f"ewm {name}": ewm(gaps, **chosen) for name, chosen in options.items()}
    return {**found, "ewm without gaps": ewm(x.T, alpha=0.3, axis=0)}


def linear():
    """Functions of a signal or an image that are linear in it, for torch and jax."""
    found = {}
    for axis in (0, 1):
        x = numbers(*shape_of(axis, 40))
        for padtype, padlen in (("odd", None), ("even", 3), ("constant", 5), (None, None)):
            options = {"axis": axis, "padtype": padtype, "padlen": padlen}
            name = f"{padtype} padding along axis {axis}"
            found[f"sosfiltfilt of {name}"] = partial(signal.sosfiltfilt, SOS[:1], **options), x
            found[f"filtfilt of {name}"] = partial(signal.filtfilt, B, A, **options), x
        for options in ({"q": 2}, {"q": 3, "zero_phase": False, "n": 3}):
            found[f"decimate by {options['q']} along axis {axis}"] = (
                partial(signal.decimate, axis=axis, **options),
                x,
            )
        x = numbers(*shape_of(axis))
        for mode in ("mirror", "reflect", "grid-wrap"):
            for order in (2, 5):
                name = f"spline of order {order}, {mode}, along axis {axis}"
                found[name] = partial(ndimage.spline_filter1d, order=order, axis=axis, mode=mode), x
        for mode in ("mirror", "reflect", "wrap", "constant"):
            options = {"axis": axis, "mode": mode}
            name = f"{mode}, along axis {axis}"
            found[f"Gaussian, {name}"] = partial(ndimage.gaussian_filter1d, sigma=1.5, **options), x
            found[f"mean of 3, {name}"] = partial(ndimage.uniform_filter1d, size=3, **options), x
        for mode in ("wrap", "constant"):
            options = {"axis": axis, "mode": mode}
            name = f"{mode}, along axis {axis}"
            found[f"slope, {name}"] = (partial(ndimage.gaussian_filter1d, sigma=1.5, order=1, **options), x)
            found[f"mean of 4, {name}"] = (partial(ndimage.uniform_filter1d, size=4, origin=1, **options), x)
    cube = numbers(4, 5, 6)
    found["table"] = mgrec.summed_area_table, cube
    found["table over three axes"] = partial(mgrec.summed_area_table, axes=(2, 0, 1)), cube
    found["spline"] = ndimage.spline_filter, cube
    found["Gaussian"] = partial(ndimage.gaussian_filter, sigma=(1, 0, 2), order=(0, 0, 2)), cube
    found["Laplacian"] = partial(ndimage.gaussian_laplace, sigma=1.0), cube
    found["mean"] = partial(ndimage.uniform_filter, size=(3, 1, 5), axes=(0, 1, 2)), cube
    return found


QUICK_LINEAR = ("sosfiltfilt of odd padding along axis 1", "table", "Gaussian")


# Of torch and jax, of which differences of probabilities must not be negative.
LIKELIHOODS = likelihoods(smallest=0.1, has_gaps=False)
REAL = {**scans(), **LIKELIHOODS}
SEGMENTS = {
    f"{name} in segments": case
    for name, case in {**segments(MARKS), **scans(MARKS), **likelihoods(0.1, False, MARKS)}.items()
    if "axis 1" in name
}
CASES = {**cases(), "ewm": means()["ewm without gaps"], **REAL}
SHORT = (*QUICK_SCANS, *QUICK_LIKELIHOODS)
