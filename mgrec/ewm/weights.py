"""How observations weigh, and what is asked of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

STATISTICS = ("mean", "sum", "var", "std", "cov", "corr")
PAIRS = ("cov", "corr")
"""Statistics of two series."""
_GAPS = 64


@dataclass(frozen=True)
class Weights:
    """What pandas' ``ewm`` is told.

    Attributes
    ----------
    statistic : str
        One of STATISTICS.
    share : float
        α.
    is_adjusted, ignores_missing, is_biased : bool
    least : int
        Observations that a result needs, 1 or more.
    """

    statistic: str
    share: float
    is_adjusted: bool = True
    ignores_missing: bool = False
    is_biased: bool = False
    least: int = 1

    @property
    def decay(self) -> float:
        """What is left of a weight after a step."""
        return 1 - self.share

    @property
    def is_complement(self) -> bool:
        """A new observation weighs what the weights before it have lost: pandas at com = 1."""
        is_mean = self.statistic == "mean" and not self.is_adjusted
        return is_mean and self.share == 0.5

    @property
    def numbers(self) -> tuple[float, float, bool, bool, int, bool, np.ndarray]:
        """What kernels are told beside the statistic and `is_adjusted`, in their order.

        The last is what all before an observation keep of the mean after gaps of 0, 1, … steps,
        where they weighed 1 before.
        """
        old = self.decay ** np.arange(1.0, _GAPS + 1)
        kept = old if self.is_complement else old / (old + self.share)
        return (
            self.decay, self.share, self.ignores_missing, self.is_complement, self.least,
            self.is_biased, kept,
        )  # fmt: skip
