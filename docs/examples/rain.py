"""
How wet is the ground?
======================

The antecedent precipitation index carries a share of yesterday's wetness into today:

.. math:: w_i = k\\,w_{i-1} + \\text{rain}_i

It is a linear recurrence of first order, here over four years of rain in Seattle (NOAA, as
vega_datasets ships it), for soils that keep 80, 90 and 97 % a day: three rows of one call.
"""

import matplotlib.pyplot as plt
import numpy as np
from vega_datasets import local_data

import mgrec

weather = local_data.seattle_weather()
rain = weather["precipitation"].to_numpy()
keeps = np.array([0.80, 0.90, 0.97])

# %%
# The coefficients have the shape (3, 1), and broadcast against the days.

wetness = mgrec.linear_recurrence(keeps[:, None], rain)
wetness.shape

# %%
# In a dry summer the slow soil remembers the winter.

fig, (top, below) = plt.subplots(2, 1, sharex=True, height_ratios=(1, 2), figsize=(8, 5))
top.bar(weather["date"], rain, width=1.0, color="#2563a8")
top.set(title="rain in Seattle, mm a day")
for keep, row, colour in zip(keeps, wetness, ("#93c5fd", "#2563a8", "#c2570c"), strict=True):
    below.plot(weather["date"], row, color=colour, label=f"keeps {keep:.0%} a day")
below.set(title="index, mm")
below.legend(loc="lower right", ncols=3, bbox_to_anchor=(1, 1))
plt.show()
