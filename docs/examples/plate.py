"""
Heat in a plate: solve_tridiagonal
==================================

The example solves the heat equation in a plane. The scheme of alternating directions (Peaceman and
Rachford 1955) is implicit along one axis and then along the other. Each half of a step solves as
many tridiagonal systems as the plate has rows, or columns. mgrec solves them along either axis.

The initial temperature is scikit-image's picture of Greek coins from Pompeii: bright is hot.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import mgrec

plate = data.coins().astype(float)
plate -= np.median(plate)
plate = np.maximum(plate, 0.0)
RATE = 2.0  # dt / (2·h²): sixteen times the longest stable step of an explicit scheme


def second_difference(u, axis):
    """Return u_{i-1} - 2·u_i + u_{i+1}; the surroundings of the plate are cold."""
    wide = np.pad(u, [(1, 1) if k == axis else (0, 0) for k in range(2)])
    n = u.shape[axis]
    before, after = (np.take(wide, range(k, k + n), axis) for k in (0, 2))
    return before - 2 * u + after


def step(u):
    for implicit in (0, 1):
        known = u + RATE * second_difference(u, 1 - implicit)
        u = mgrec.solve_tridiagonal(-RATE, 1 + 2 * RATE, -RATE, known, axis=implicit)
    return u


# %%

moments = [plate]
for steps in (3, 12, 45):
    u = moments[-1]
    for _ in range(steps):
        u = step(u)
    moments.append(u)

# %%

fig, axes = plt.subplots(2, 2, figsize=(8, 6.4))
for ax, u, when in zip(axes.flat, moments, (0, 3, 15, 60), strict=True):
    ax.imshow(u, cmap="inferno", vmin=0, vmax=np.quantile(u, 0.999))
    ax.set(title=f"after {when} steps" if when else "at the start", xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
plt.show()
