"""
Rotate an image in chunks: spline_filter
========================================

A spline of order 3 interpolates an image from coefficients, each of which depends on all samples.
``dask_image`` and others compute them by chunk, which leaves seams. Coefficients by
:func:`mgrec.ndimage.spline_filter` are those of the whole image, in any chunks.

The photograph is one of scikit-image: Eileen Collins, by NASA.
"""

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
import scipy.ndimage
from skimage import data

from mgrec.ndimage import spline_filter

image = data.astronaut().mean(axis=2)
chunked = da.from_array(image, chunks=128)

# %%
# The rotation maps each pixel of the result to a point of the image.

angle = np.deg2rad(12)
matrix = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
center = (np.array(image.shape) - 1) / 2
offset = center - matrix @ center


# %%
# A chunk of the result interpolates between the coefficients around its points.


@dask.delayed
def interpolated(window, start, shape):
    return scipy.ndimage.affine_transform(window, matrix, start, shape, prefilter=False)


def rotated_chunk(coefficients, first, shape):
    corners = np.indices((2, 2)).reshape(2, 4) * (np.array(shape)[:, None] - 1)
    points = matrix @ (corners + np.array(first)[:, None]) + offset[:, None]
    low = np.clip(np.floor(points.min(axis=1)).astype(int) - 2, 0, np.array(image.shape) - 1)
    high = np.clip(np.ceil(points.max(axis=1)).astype(int) + 3, low + 1, image.shape)
    window = coefficients[low[0] : high[0], low[1] : high[1]]
    start = matrix @ np.array(first) + offset - low
    return da.from_delayed(interpolated(window, start, shape), shape, float)


def rotated(coefficients, size=128):
    rows = [
        [rotated_chunk(coefficients, (row, column), (size, size)) for column in range(0, 512, size)]
        for row in range(0, 512, size)
    ]
    return da.block(rows)


# %%
# The result is that of SciPy for the whole image.

whole = scipy.ndimage.affine_transform(image, matrix, offset)
exact = rotated(spline_filter(chunked)).compute()
float(abs(exact - whole).max())


# %%
# Coefficients of each chunk by itself are wrong at its borders, and so is the rotated image.

by_chunk = rotated(chunked.map_blocks(scipy.ndimage.spline_filter)).compute()

fig, axes = plt.subplots(1, 3, figsize=(9, 3.4))
shown = {
    "rotated in chunks": (exact, {"cmap": "gray"}),
    "error, by spline_filter": (abs(exact - whole), {"vmin": 0, "vmax": 5}),
    "error, filtered by chunk": (abs(by_chunk - whole), {"vmin": 0, "vmax": 5}),
}
for ax, (title, (picture, options)) in zip(axes, shown.items(), strict=True):
    ax.imshow(picture, **options)
    ax.set(title=title, xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
plt.show()
