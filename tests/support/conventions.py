"""One call of each public function of arrays, and the kinds of arrays that it is called with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import mgrec
from mgrec import hmm, ndimage, signal, statespace

X = np.linspace(0.1, 0.9, 40)
TABLE = np.linspace(0.1, 0.9, 42).reshape(6, 7)
FRAMES = np.log(np.linspace(0.1, 0.9, 80).reshape(40, 2))
B, A, SOS = [0.2, 0.1], [1.0, -0.7], [[0.2, 0.1, 0.0, 1.0, -0.7, 0.1]]
CHAIN = [0.5, 0.5], [[0.9, 0.1], [0.3, 0.7]]
EYE = [[1.0, 0.0], [0.0, 1.0]]
SPACE = {
    "design": [[1.0, 1.0]], "obs_cov": [[1.0]], "transition": [[0.5, 0.0], [0.0, 0.5]],
    "state_cov": EYE, "initial_state": [0.0, 0.0], "initial_state_cov": EYE,
}  # fmt: skip
SCORES = {"match": 1, "mismatch": -1, "gap": -2}


@dataclass(frozen=True)
class Case:
    """A public function and arguments of one call.

    Attributes
    ----------
    function : callable
    data : dict
        The arrays of the call, whose type the results have, by parameter.
    others : dict
        The other arguments. Those that are lists may be of any dtype.
    """

    function: Callable[..., Any]
    data: dict[str, Any]
    others: dict[str, Any]

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def qualified_name(self) -> str:
        """Name with the module, if it is one of :mod:`mgrec.hmm` or :mod:`mgrec.statespace`."""
        family = self.function.__module__.split(".")[1:2]
        return f"{family[0]}.{self.name}" if family in (["hmm"], ["statespace"]) else self.name

    @property
    def lists(self) -> list[Any]:
        """The other arguments that are lists of numbers."""
        return [value for value in self.others.values() if isinstance(value, list)]

    def call(self, convert: Callable[[np.ndarray], Any], **options: Any) -> Any:
        """Call the function with its data converted."""
        data = {name: convert(array) for name, array in self.data.items()}
        return self.function(**data, **{**self.others, **options})


def mapped_lists(value: Any, dtype: Any) -> Any:
    """Return a list of numbers as an array; integers, which are codes, stay integers."""
    array = np.asarray(value) if isinstance(value, (list, np.ndarray)) else None
    is_float = array is not None and array.dtype.kind == "f"
    return array.astype(dtype) if is_float else value


def scan(x: Any, s: Any, **options: Any) -> Any:
    return mgrec.scan(mgrec.maps.max_plus, x, s, **options)


def solve_factored(d: Any, b: Any, **options: Any) -> Any:
    return mgrec.factor_tridiagonal(1.0, d, 1.0, **options).solve(b)


CASES = [
    Case(mgrec.linear_recurrence, {"t": X}, {"s": X.tolist()}),
    Case(
        mgrec.rational_recurrence, {"b": X}, {"a": X.tolist(), "c": 1.0, "d": 2.0, "initial": 0.5}
    ),
    Case(scan, {"x": X}, {"s": X.tolist(), "initial": 0.5}),
    Case(mgrec.weighted_scan, {"x": X}, {"weights": X.tolist()}),
    Case(mgrec.solve_tridiagonal, {"b": X}, {"dl": 1.0, "d": (X + 3).tolist(), "du": 1.0}),
    Case(solve_factored, {"d": X + 3, "b": X}, {}),
    Case(mgrec.summed_area_table, {"x": TABLE}, {}),
    Case(mgrec.wavefront, {"local": TABLE}, {"weights": (0.3, 0.3, 0.2)}),
    Case(mgrec.sor, {"x": TABLE}, {"rhs": TABLE.tolist(), "sweeps": 2}),
    Case(mgrec.smith_waterman, {"query": np.arange(7)}, {"target": [2, 3, 4], **SCORES}),
    Case(signal.lfilter, {"x": X}, {"b": B, "a": A}),
    Case(signal.sosfilt, {"x": X}, {"sos": SOS}),
    Case(signal.filtfilt, {"x": X}, {"b": B, "a": A}),
    Case(signal.sosfiltfilt, {"x": X}, {"sos": SOS}),
    Case(signal.decimate, {"x": X}, {"q": 2}),
    Case(signal.ewm, {"x": X}, {"alpha": 0.5}),
    Case(ndimage.spline_filter1d, {"input": X}, {}),
    Case(ndimage.spline_filter, {"input": TABLE}, {}),
    Case(ndimage.gaussian_filter1d, {"input": X}, {"sigma": 1.5}),
    Case(ndimage.gaussian_filter, {"input": TABLE}, {"sigma": 1.5}),
    Case(ndimage.gaussian_laplace, {"input": TABLE}, {"sigma": 1.5}),
    Case(ndimage.uniform_filter1d, {"input": X}, {"size": 3}),
    Case(ndimage.uniform_filter, {"input": TABLE}, {"size": 3}),
    *(
        Case(function, {"log_frameprob": FRAMES}, {"startprob": CHAIN[0], "transmat": CHAIN[1]})
        for function in (hmm.log_likelihood, hmm.forward_backward, hmm.viterbi)
    ),
    Case(hmm.sample, {"uniform": X}, {"startprob": CHAIN[0], "transmat": CHAIN[1]}),
    *(
        Case(function, {"endog": X[:, None]}, SPACE)
        for function in (
            statespace.kalman_filter, statespace.kalman_smoother, statespace.log_likelihood,
        )
    ),
    Case(
        statespace.sample,
        {"measurement_shocks": X[:, None], "state_shocks": np.ones((40, 2))},
        {"design": SPACE["design"], "transition": SPACE["transition"], "initial_state": [0.0, 0.0]},
    ),
]  # fmt: skip
