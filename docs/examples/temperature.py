"""
The sea's temperature, smoothed: ewm
====================================

In an exponentially weighted mean the weight of a value decays at a constant rate.
:func:`mgrec.signal.ewm` computes it as pandas does, for arrays of any size and type.

The data are the temperature of the eastern Pacific (Niño 3, NOAA, ERSSTv4, public domain), which
PyWavelets contains: every third month from 1950 to 2015. The warm peaks of 1982 and 1997 are El
Niño.
"""

import matplotlib.pyplot as plt
import numpy as np
import pywt

from mgrec.signal import ewm

year, sst = pywt.data.nino()

# %%
# The series contains deviations from its mean, in degrees. Compute means with half-lives of one and
# of eight years. For three years the buoy is taken as lost, and the values are nan, which the mean
# ignores as pandas does.

gaps = np.where((year >= 1961) & (year < 1964), np.nan, sst)
short = ewm(gaps, halflife=4)
long = ewm(gaps, halflife=32)

# %%

fig, axes = plt.subplots(figsize=(8, 4.2))
axes.axvspan(1961, 1964, color="#f4f4f5")
axes.text(1962.5, 2.2, "no buoy", ha="center", color="#71717a")
axes.plot(year, gaps, color="#a1a1aa", linewidth=0.9, label="every third month")
axes.plot(year, short, color="#2563a8", label="half-life of a year")
axes.plot(year, long, color="#c2570c", linewidth=2, label="of eight years")
axes.set(title="Eastern Pacific, departures of the sea surface, °C", xlim=(1950, 2016))
axes.legend(loc="upper center", ncols=3, bbox_to_anchor=(0.5, -0.07))
plt.show()
