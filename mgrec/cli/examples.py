"""Example calls of the public functions of arrays, and the kernels that they compile."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial, wraps
from itertools import product
from math import isqrt
from typing import Any, NamedTuple

import numpy as np

from .. import hmm, ndimage, signal, statespace
from ..banded.api import solve_banded
from ..banded.blocks import solve_block_tridiagonal
from ..engines.code_on_disk import reason_not_stored
from ..engines.cpu.kernel_cache import STORED
from ..grids.alignment.api import smith_waterman
from ..grids.loops.api import wavefront
from ..grids.sor.api import sor
from ..grids.table.api import summed_area_table
from ..scans.functions import linear_recurrence, rational_recurrence, scan
from ..scans.maps import max_plus
from ..scans.weighted import weighted_scan
from ..tridiagonal.api import solve_tridiagonal
from ..tridiagonal.factor_api import factor_tridiagonal

X = np.linspace(0.1, 0.9, 40)
TABLE = np.linspace(0.1, 0.9, 42).reshape(6, 7)
FRAMES = np.log(np.linspace(0.1, 0.9, 80).reshape(40, 2))
B, A, SOS = [0.2, 0.1], [1.0, -0.7], [[0.2, 0.1, 0.0, 1.0, -0.7, 0.1]]
CHAIN = {"startprob": [0.5, 0.5], "transmat": [[0.875, 0.125], [0.25, 0.75]]}
EYE = [[1.0, 0.0], [0.0, 1.0]]
SPACE = {
    "design": [[1.0, 1.0]],
    "obs_cov": [[1.0]],
    "transition": [[0.5, 0.0], [0.0, 0.5]],
    "state_cov": EYE,
    "initial_state": [0.0, 0.0],
    "initial_state_cov": EYE,
}
SCORES = {"match": 1, "mismatch": -1, "gap": -2}
SHORT = 1000
"""Elements of the arrays of short calls."""
ROWS = 32


@dataclass(frozen=True)
class Example:
    """A public function and arguments of one call.

    `path`: the function's name in the package, such as "signal.lfilter".
    `data`: the arrays of the call, whose type the results have, by parameter.
    `others`: the other arguments. Lists may be of any dtype. Those of the shape of the data have
      numbers for each step.
    """

    path: str
    function: Callable[..., Any]
    data: dict[str, Any]
    others: dict[str, Any]

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def family(self) -> str:
        """The folder of the function, whose functions share kernels."""
        return str(self.function.__module__).split(".")[1]

    def call(self, convert: Callable[[np.ndarray], Any], **options: Any) -> Any:
        """Call the function with its data converted."""
        data = {name: convert(array) for name, array in self.data.items()}
        return self.function(**data, **{**self.others, **options})

    def resized(self, shape: tuple[int, ...], dtype: str, axis: int = -1) -> Example:
        """Return the example with arrays of a shape and dtype; integers stay integers.

        Rows of steps, such as the diagonals of bands, have as many steps as the shape along an axis.
        """
        example_shape = np.shape(next(iter(self.data.values())))

        def resize(value: Any) -> Any:
            if np.shape(value) == example_shape:
                array = np.resize(value, shape)
            elif len(example_shape) == 1 and np.shape(value)[1:] == example_shape:
                array = np.stack([np.resize(row, shape[axis]) for row in value])
            else:
                return value
            return array.astype(dtype) if array.dtype.kind == "f" else array

        data = {name: resize(value) for name, value in self.data.items()}
        return replace(self, data=data, others={n: resize(v) for n, v in self.others.items()})


@wraps(scan)
def _scan(x: Any, s: Any, **options: Any) -> Any:
    return scan(max_plus, x, s, **options)


@wraps(factor_tridiagonal)
def _solve_factored(d: Any, b: Any, **options: Any) -> Any:
    return factor_tridiagonal(1.0, d, 1.0, **options).solve(b)


STEPS = X.tolist()
EXAMPLES = [
    Example("linear_recurrence", linear_recurrence, {"t": X}, {"s": STEPS}),
    Example(
        "rational_recurrence", rational_recurrence, {"b": X}, {"a": STEPS, "c": 1.0, "d": 2.0, "initial": 0.5}
    ),
    Example("scan", _scan, {"x": X}, {"s": STEPS, "initial": 0.5}),
    Example("weighted_scan", weighted_scan, {"x": X}, {"weights": STEPS}),
    Example("solve_tridiagonal", solve_tridiagonal, {"b": X}, {"dl": 1.0, "d": (X + 3).tolist(), "du": 1.0}),
    Example("solve_banded", solve_banded, {"b": X}, {"l_and_u": (0, 1), "ab": [STEPS, (X + 3).tolist()]}),
    Example(
        "solve_block_tridiagonal",
        solve_block_tridiagonal,
        {"b": X[:, None]},
        {"dl": [[1.0]], "d": [[4.0]], "du": [[1.0]]},
    ),
    Example("factor_tridiagonal", _solve_factored, {"d": X + 3, "b": X}, {}),
    Example("summed_area_table", summed_area_table, {"x": TABLE}, {}),
    Example("wavefront", wavefront, {"local": TABLE}, {"weights": (0.3, 0.3, 0.2)}),
    Example("sor", sor, {"x": TABLE}, {"rhs": TABLE.tolist(), "sweeps": 2}),
    Example(
        "smith_waterman", smith_waterman, {"query": np.arange(7)}, {"target": [2, 3, 4, 5, 6, 0, 1], **SCORES}
    ),
    Example("signal.lfilter", signal.lfilter, {"x": X}, {"b": B, "a": A}),
    Example("signal.sosfilt", signal.sosfilt, {"x": X}, {"sos": SOS}),
    Example("signal.filtfilt", signal.filtfilt, {"x": X}, {"b": B, "a": A}),
    Example("signal.sosfiltfilt", signal.sosfiltfilt, {"x": X}, {"sos": SOS}),
    Example("signal.decimate", signal.decimate, {"x": X}, {"q": 2}),
    Example("signal.ewm", signal.ewm, {"x": X}, {"alpha": 0.5}),
    Example("ndimage.spline_filter1d", ndimage.spline_filter1d, {"input": X}, {}),
    Example("ndimage.spline_filter", ndimage.spline_filter, {"input": TABLE}, {}),
    Example("ndimage.gaussian_filter1d", ndimage.gaussian_filter1d, {"input": X}, {"sigma": 1.5}),
    Example("ndimage.gaussian_filter", ndimage.gaussian_filter, {"input": TABLE}, {"sigma": 1.5}),
    Example("ndimage.gaussian_laplace", ndimage.gaussian_laplace, {"input": TABLE}, {"sigma": 1.5}),
    Example("ndimage.uniform_filter1d", ndimage.uniform_filter1d, {"input": X}, {"size": 3}),
    Example("ndimage.uniform_filter", ndimage.uniform_filter, {"input": TABLE}, {"size": 3}),
    Example("hmm.log_likelihood", hmm.log_likelihood, {"log_frameprob": FRAMES}, CHAIN),
    Example("hmm.forward_backward", hmm.forward_backward, {"log_frameprob": FRAMES}, CHAIN),
    Example("hmm.viterbi", hmm.viterbi, {"log_frameprob": FRAMES}, CHAIN),
    Example("hmm.sample", hmm.sample, {"uniform": X}, CHAIN),
    Example("statespace.kalman_filter", statespace.kalman_filter, {"endog": X[:, None]}, SPACE),
    Example("statespace.kalman_smoother", statespace.kalman_smoother, {"endog": X[:, None]}, SPACE),
    Example("statespace.log_likelihood", statespace.log_likelihood, {"endog": X[:, None]}, SPACE),
    Example(
        "statespace.sample",
        statespace.sample,
        {"measurement_shocks": X[:, None], "state_shocks": X[:, None]},
        {"design": [[1.0]], "transition": [[0.5]], "initial_state": [0.0]},
    ),
]
"""One call of each public function of arrays."""
_OF_NUMBERS = {"linear_recurrence": {"s": 0.5}}
"""Arguments for all steps, for which functions compile other kernels than for one each step."""


class Compiled(NamedTuple):
    """What calls of a function compiled.

    `kernels`: number of kernels that were not on disk.
    `reason`: why this process stores no compiled code.
    """

    path: str
    kernels: int
    seconds: float
    reason: str | None


def compile_kernels(path: str, steps: int) -> Compiled:
    """Call a function with arrays of both dtypes, short ones and ones of `steps` elements."""
    (example,) = (example for example in EXAMPLES if example.path == path)
    start, count = time.monotonic(), len(STORED)
    for size, dtype in product((SHORT, steps), ("float64", "float32")):
        for shape, options in _shapes(example, size):
            resized = example.resized(shape, dtype, options.get("axis", -1))
            call = partial(resized.call, np.asarray, **options)
            call()
            call()  # is prepared
            if path in _OF_NUMBERS:
                call(**_OF_NUMBERS[path])
    seconds = time.monotonic() - start
    return Compiled(path, len(STORED) - count, seconds, reason_not_stored())


def _shapes(example: Example, size: int) -> Iterator[tuple[tuple[int, ...], dict[str, int]]]:
    """Yield the shapes of a row, rows and columns of `size` elements, with the options for them."""
    example_shape = np.shape(next(iter(example.data.values())))
    if "axis" not in inspect.signature(example.function).parameters:
        yield tuple([isqrt(size) if length > 1 else 1 for length in example_shape]), {}
        return
    vector, steps = example_shape[1:], max(1, size // ROWS)
    yield (size, *vector), {}
    yield (ROWS, steps, *vector), {}
    yield (steps, ROWS, *vector), {"axis": 0}
