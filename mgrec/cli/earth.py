"""The series of ``mgrec demo``: a west wind over the measured land and sea of the Earth.

The wind blows along one line, wound round the Earth from north to south. ``earth.npz`` has land and
sea of the GLOBE digital elevation model (NOAA National Geophysical Data Center, 1999, 30 arc
seconds, public domain): each tenth parallel, 2,160 parallels of 43,200 points, 93,312,000 steps.
They were read from the mask of the package global-land-mask 1.0.0 (MIT), rows 5, 15, 25, ..., from
180° W to 180° E, and are stored as lengths of their runs, sea first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

PARALLELS = 2160
POINTS = 43_200
NORTH = 180
"""The parallel at 75° N."""
RADIUS = 6371.0  # km
# Distances in km after which 1 - 1/e of the air has changed, over sea and over land.
SEA, LAND = 500.0, 1000.0


@dataclass(frozen=True)
class MaritimeAir:
    """Coefficients of w_i = s_i·w_{i-1} + t_i, the share of maritime air in a west wind.

    Over sea the share relaxes towards 1 within about L = 500 km, over land towards 0 within about
    1000 km; dx is the distance between two points, shorter nearer to the poles::

        s_i = exp(-dx_i / L_i),   t_i = 1 - s_i over sea, 0 over land

    At 180° the line continues one parallel further south: one recurrence from north to south.
    `parallels` is the number of parallels; they start at 75° N if that many lie south of it.

    >>> s, t = MaritimeAir(2160)[40_000_000:40_000_002]
    >>> s
    array([0.99819498, 0.99819498])
    """

    parallels: int

    @property
    def first(self) -> int:
        """The first parallel."""
        return min(NORTH, PARALLELS - self.parallels)

    @property
    def steps(self) -> int:
        return self.parallels * POINTS

    def latitude(self) -> np.ndarray:
        """Return degrees north of every parallel."""
        return _latitude(np.arange(self.first, self.first + self.parallels))

    def is_sea(self, start: int, stop: int) -> np.ndarray:
        """Return whether there is sea, for the steps from `start` to `stop`."""
        starts, lengths = self._runs(start, stop)
        return np.repeat(_is_sea(starts), lengths)

    def __getitem__(self, steps: slice) -> np.ndarray:
        """Return s and t of steps."""
        start, stop, _ = steps.indices(self.steps)
        # One exponential for each run and surface, not for each step.
        starts, lengths = self._runs(start, stop)
        is_sea, parallels = _is_sea(starts), starts // POINTS
        dx = 2 * np.pi * RADIUS / POINTS * np.cos(np.radians(_latitude(parallels)))
        s = np.where(is_sea, np.exp(-dx / SEA), np.exp(-dx / LAND))
        t = np.where(is_sea, -np.expm1(-dx / SEA), 0.0)
        return np.repeat(np.stack([s, t]), lengths, axis=1)

    def _runs(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the runs of one surface on one parallel: their points, counted from the north.

        Return the first point and the number of points of each run.
        """
        first, last = (self.first * POINTS + step for step in (start, stop))
        if first >= last:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        ends = _ends()
        coasts = ends[np.searchsorted(ends, first, "right") : np.searchsorted(ends, last)]
        crossings = np.arange((first // POINTS + 1) * POINTS, last, POINTS)
        bounds = np.unique(np.concatenate([[first], coasts, crossings, [last]]))
        return bounds[:-1], np.diff(bounds)


def _latitude(parallels: np.ndarray) -> np.ndarray:
    return 90.0 - (5 + 10 * parallels) / 120


def _is_sea(points: np.ndarray) -> np.ndarray:
    return np.searchsorted(_ends(), points, "right") % 2 == 0


@cache
def _ends() -> np.ndarray:
    """Return the ends of the runs of sea and of land, sea first."""
    with files(__package__).joinpath("earth.npz").open("rb") as file:
        return np.cumsum(np.load(file)["lengths"], dtype=np.int64)
