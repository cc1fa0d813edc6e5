"""
Depth of field, by a summed-area table
======================================

A box blur of any width costs four numbers a pixel once the table of sums is there (Crow 1984), so
that the width may differ from pixel to pixel. A lens does that: what is far from its focus is
blurred more.

The motorcycle and its disparities, from which depth follows, are a stereo pair of the Middlebury
2014 benchmark that scikit-image ships.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import mgrec

image, _, disparity = data.stereo_motorcycle()
depth = np.where(np.isfinite(disparity), disparity, np.nanmedian(disparity))


# %%
# One table a colour: sums over the first two axes. A row and a column of zeros stand before it,
# so that every rectangle has its four corners.

table = mgrec.summed_area_table(image.astype(np.int64), axes=(0, 1))
table = np.pad(table, ((1, 0), (1, 0), (0, 0)))
table.shape


# %%


def blurred(focus):
    """The mean over a square whose half width grows with the distance from the focus."""
    half = np.minimum(np.abs(depth - focus) / 3, 12).astype(int)
    rows, columns = np.indices(depth.shape)
    top, left = np.maximum(rows - half, 0), np.maximum(columns - half, 0)
    below = np.minimum(rows + half + 1, depth.shape[0])
    right = np.minimum(columns + half + 1, depth.shape[1])
    sums = table[below, right] - table[top, right] - table[below, left] + table[top, left]
    return sums / ((below - top) * (right - left))[..., None] / 255


# %%

fig, axes = plt.subplots(2, 2, figsize=(8, 5.6))
shown = {
    "the photograph": image,
    "its disparity: bright is near": depth,
    "focus on the motorcycle": blurred(50.0),
    "focus on the wall": blurred(18.0),
}
for ax, (title, picture) in zip(axes.flat, shown.items(), strict=True):
    ax.imshow(picture, cmap="cividis")
    ax.set(title=title, xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
plt.show()
