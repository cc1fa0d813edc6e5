"""
Depth of field: summed_area_table
=================================

A box blur takes four numbers of a summed-area table for each pixel, for any width (Crow 1984). The
width may therefore vary from pixel to pixel. This imitates a lens, which blurs objects
that are far from its focus.

The data are a stereo pair of the Middlebury 2014 benchmark, which scikit-image contains: a
motorcycle and its disparities, which determine the depth.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import mgrec

image, _, disparity = data.stereo_motorcycle()
depth = np.where(np.isfinite(disparity), disparity, np.nanmedian(disparity))


# %%
# Sum over the first two axes, which gives one table for each colour. Pad the table with a row and a
# column of zeros, so that each rectangle has four corners.

table = mgrec.summed_area_table(image.astype(np.int64), axes=(0, 1))
table = np.pad(table, ((1, 0), (1, 0), (0, 0)))
table.shape


# %%


def blurred(focus):
    """Average over a square whose half width increases with the distance from the focus."""
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
