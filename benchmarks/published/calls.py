"""Calls of mgrec and of their peers, as users make them, allocation included."""

from __future__ import annotations

from dataclasses import dataclass

from .rows import newest


@dataclass(frozen=True)
class Call:
    """One call of mgrec beside one of a peer, in the same run."""

    words: str
    peer: str
    study: str
    case: str
    names: tuple[str, str]
    value: str = "ms"

    @property
    def times(self) -> float:
        """How many times as fast as the peer mgrec is."""
        result = newest(self.study)
        if self.value == "times":
            return result.number(self.case, "", "times")
        ours, theirs = (result.number(self.case, name, self.value) for name in self.names)
        return theirs / ours

    @property
    def spread(self) -> tuple[float, float] | None:
        """The same of mgrec's slowest and fastest call, if the result has them."""
        result = newest(self.study)
        try:
            slowest, fastest = (result.number(self.case, self.names[0], k) for k in ("max", "min"))
            theirs = result.number(self.case, self.names[1], "median")
        except LookupError:
            return None
        return theirs / slowest, theirs / fastest


_CPU, _FILTERS, _SYSTEMS = "cpu-epyc-2", "filters-xeon-2", "tridiagonal-xeon-2"
_LONG = "constant s, float64, 10^7, allocating"
_MANY = "25,000 of 4,095 f32, dominant"
_STATES = "states-xeon-2"
_GPU_SYSTEMS = "cuda-tridiagonal-h200"
_FEW = "1,000 of 64 f32, dominant"
_TABLE = "8,192 × 8,192, uint8 to int32"
_DNA, _PROTEIN = "10,000 × 10,000, DNA, linear, local", "10,000 × 10,000, BLOSUM62, local"

CALLS: dict[str, tuple[Call, ...]] = {
    "NumPy arrays, one thread": (
        Call("linear_recurrence, 10⁷ steps", "scipy.signal.lfilter", _CPU, _LONG,
             ("mgrec call", "scipy lfilter")),
        Call("linear_recurrence, 10⁷ steps", "pandas ewm", _CPU, _LONG,
             ("mgrec call", "pandas ewm")),
        Call("the same, coefficient arrays", "jax associative_scan", _CPU,
             "arrays, float64, 10^7, allocating", ("mgrec call", "jax.lax.associative_scan")),
        Call("lfilter, order 8", "scipy.signal", _FILTERS, "lfilter, order 8, float64, 10^7",
             ("mgrec call", "scipy")),
        Call("sosfilt, 8 sections", "scipy.signal", _FILTERS, "sosfilt, 8 sections, float64, 10^7",
             ("mgrec call", "scipy")),
        Call("solve_tridiagonal, one of 10⁷", "LAPACK gtsv", _SYSTEMS,
             "one of 10,000,000, float64, random", ("mgrec", "LAPACK gtsv")),
        Call("sor, 1,024², 16 sweeps", "a numba loop", "relaxation-xeon-2",
             "1,024 × 1,024, float32, 16 sweeps", ("mgrec", "numba loop")),
        Call("ewm, mean", "pandas", "ewm-xeon-2", "mean, adjusted, none missing",
             ("mgrec", "pandas")),
        Call("smith_waterman, DNA", "parasail", "alignment-epyc-2", _DNA,
             ("mgrec", "parasail sw_striped_16")),
        Call("smith_waterman, BLOSUM62", "parasail", "alignment-epyc-2", _PROTEIN,
             ("mgrec", "parasail sw_striped_8")),
        Call("summed_area_table, uint8", "OpenCV", "tables-xeon-2", _TABLE,
             ("mgrec", "cv2.integral")),
        Call("kalman_filter, 2 states", "statsmodels", _STATES, "filter", ("mgrec", "statsmodels")),
        Call("forward_backward, 4 states", "hmmlearn", _STATES, "forward-backward",
             ("mgrec", "hmmlearn, logarithms")),
        Call("viterbi, 4 states", "hmmlearn", _STATES, "best path", ("mgrec", "hmmlearn")),
        Call("linear_recurrence, 10 steps", "scipy.signal.lfilter", _CPU, "one call of 10 steps",
             ("mgrec call, constant s", "scipy lfilter")),
    ),
    "CuPy arrays, NVIDIA H200": (
        Call("linear_recurrence, 2²⁸ steps", "torch.cumsum", "cuda-calls-h200",
             "constant: 268,435,456", ("mgrec", "torch.cumsum")),
        Call("the same, 10⁶ rows of 64", "torch.cumsum", "cuda-calls-h200",
             "constant: 1,000,000 x 64, axis 1", ("mgrec", "torch.cumsum")),
        Call("lfilter, order 2", "cupyx.scipy.signal", "cuda-filters-h200",
             "order 2, 0.1: 67,108,864 f4", ("", ""), "times"),
        Call("solve_tridiagonal, one of 2²⁵", "cuSPARSE", _GPU_SYSTEMS, "one of 2^25 f32, random",
             ("mgrec", "cuSPARSE gtsv2")),
        Call("solve_tridiagonal, 25,000 of 4,095", "cuSPARSE", _GPU_SYSTEMS, _MANY,
             ("mgrec", "cuSPARSE gtsv2StridedBatch")),
        Call("solve_tridiagonal, 1,000 of 64", "cuSPARSE", _GPU_SYSTEMS, _FEW,
             ("mgrec", "cuSPARSE gtsv2StridedBatch")),
        Call("linear_recurrence, 2²⁶ steps", "jax associative_scan", "cuda-peers-h200",
             "arrays f4 2^26, jax", ("mgrec call", "jax associative_scan")),
        Call("the same, kernel, 2,048 rows", "accelerated-scan", "cuda-peers-rows-h100",
             "2,048 rows of 32,768, f4", ("mgrec kernel", "accelerated-scan warp")),
        Call("summed_area_table, 16,384²", "torch.cumsum twice", "cuda-summed-area-h200",
             "16,384 x 16,384 f32", ("mgrec", "torch.cumsum twice")),
    ),
}  # fmt: skip
