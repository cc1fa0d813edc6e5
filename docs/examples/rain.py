"""
How wet is the ground? linear_recurrence
========================================

The antecedent precipitation index adds the rain of each day to a fraction of the previous day's
index:

.. math:: w_i = k\\,w_{i-1} + \\text{rain}_i

It is a linear recurrence of first order. The data are four years of rain in Seattle (NOAA), which
vega_datasets contains. One call computes the index of three soils, which keep 80, 90 and 97 % a
day.
"""

import matplotlib.pyplot as plt
import numpy as np
from vega_datasets import local_data

import mgrec

weather = local_data.seattle_weather()
rain = weather["precipitation"].to_numpy()
kept = np.array([0.80, 0.90, 0.97])

# %%
# The coefficients have the shape (3, 1), and broadcast against the days.

wetness = mgrec.linear_recurrence(kept[:, None], rain)
wetness.shape

# %%
# In a dry summer the slow soil is still wet from the winter.

fig, (top, below) = plt.subplots(2, 1, sharex=True, height_ratios=(1, 2), figsize=(8, 5))
top.bar(weather["date"], rain, width=1.0, color="#2563a8")
top.set(title="rain in Seattle, mm a day")
for fraction, row, colour in zip(kept, wetness, ("#93c5fd", "#2563a8", "#c2570c"), strict=True):
    below.plot(weather["date"], row, color=colour, label=f"keeps {fraction:.0%} a day")
below.set(title="index, mm")
below.legend(loc="lower right", ncols=3, bbox_to_anchor=(1, 1))
plt.show()
