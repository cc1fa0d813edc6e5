"""The series of ``mgrec demo``: one thread of air, wound round the Earth from pole to pole.

``earth.npz`` has land and sea of the GLOBE digital elevation model (NOAA National Geophysical Data
Center, 1999, 30 arc seconds, public domain): each tenth parallel, 2,160 parallels of 43,200 places,
93,312,000 steps. They were read from the mask of the package global-land-mask 1.0.0 (MIT), rows
5, 15, 25, ..., from 180° W to 180° E, and are stored as lengths of their runs, sea first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

PARALLELS = 2160
PLACES = 43_200
RADIUS = 6371.0  # km
# Distances in km after which 1 - 1/e of the air has changed, over sea and over land.
DISTANCES = np.array([500.0, 1000.0])


@dataclass(frozen=True)
class MaritimeAir:
    """Coefficients of w_i = s_i·w_{i-1} + t_i, the share of maritime air in a west wind.

    Over sea the share relaxes towards 1 within about L = 500 km, over land towards 0 within about
    1000 km; dx is the distance between two places, shorter nearer to the poles::

        s_i = exp(-dx_i / L_i),   t_i = 1 - s_i over sea, 0 over land

    At 180° the thread continues one parallel further south: one recurrence from pole to pole.
    `turns` is the number of parallels; fewer than all start at 60° N.

    Examples
    --------
    >>> s, t = MaritimeAir(2160)[40_000_000:40_000_002]
    >>> s
    array([0.99819498, 0.99819498])
    """

    turns: int

    @property
    def first(self) -> int:
        """The first parallel."""
        return 0 if self.turns > PARALLELS - 360 else 360

    @property
    def steps(self) -> int:
        return self.turns * PLACES

    def latitude(self) -> np.ndarray:
        """Return degrees north of every turn."""
        return 90.0 - (5 + 10 * np.arange(self.first, self.first + self.turns)) / 120

    def is_sea(self, start: int, stop: int) -> np.ndarray:
        """Return whether there is sea, for the steps from `start` to `stop`."""
        ends, north = _ends(), self.first * PLACES
        start, stop = north + start, north + stop
        spans = slice(np.searchsorted(ends, start, "right"), np.searchsorted(ends, stop) + 1)
        lengths = np.diff(np.clip(ends[spans], start, stop), prepend=start)
        return np.repeat(np.arange(spans.start, spans.start + lengths.size) % 2 == 0, lengths)

    def __getitem__(self, steps: slice) -> np.ndarray:
        """Return s and t of steps."""
        start, stop, _ = steps.indices(self.steps)
        sea = self.is_sea(start, stop)
        coefficients = np.empty((2, sea.size))
        # One exponential for each parallel and surface, not for each step.
        for parallel in range(start // PLACES, -(-stop // PLACES)):
            part = slice(max(parallel * PLACES - start, 0), (parallel + 1) * PLACES - start)
            dx = 2 * np.pi * RADIUS / PLACES * np.cos(np.radians(self.latitude()[parallel]))
            coefficients[0, part] = np.where(sea[part], *np.exp(-dx / DISTANCES))
            coefficients[1, part] = sea[part] * -np.expm1(-dx / DISTANCES[0])
        return coefficients


@cache
def _ends() -> np.ndarray:
    with files(__package__).joinpath("earth.npz").open("rb") as file:
        return np.cumsum(np.load(file)["lengths"], dtype=np.int64)
