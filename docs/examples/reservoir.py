"""
How large must the reservoir be?
================================

Rain fills it, a town drinks from it. It can neither run dry nor hold more than it holds, so that
a day moves the level and clips it. A run of such days is again one day of that kind (a shift, a
lowest and a highest level), so that :func:`mgrec.scan` can cut years into chunks.

The rain is that of Seattle, 2012 to 2015 (NOAA, as vega_datasets ships it).
"""

import matplotlib.pyplot as plt
import numpy as np
from vega_datasets import local_data

import mgrec


def lift(flow, capacity):
    return flow, 0.0, capacity


def compose(earlier, later):
    shift, lowest, highest = earlier
    return shift + later[0], apply(later, lowest), apply(later, highest)


def apply(day, level):
    shift, lowest, highest = day
    return np.minimum(np.maximum(level + shift, lowest), highest)


reservoir = mgrec.TransferMap(lift, compose, apply, identity=(0.0, -np.inf, np.inf))
mgrec.check_laws(reservoir)

# %%
# A tenth of a square kilometre of roofs and hills: a millimetre of rain is 100 cubic metres. The
# town takes 230 a day, and half as much again in summer. All capacities from 500 to 40,000 cubic
# metres are rows of one call.

weather = local_data.seattle_weather()
month = weather["date"].dt.month.to_numpy()
demand = np.where((month >= 6) & (month <= 9), 345.0, 230.0)
flow = 100.0 * weather["precipitation"].to_numpy() - demand
capacity = np.arange(500.0, 40_500.0, 500.0)
level = mgrec.scan(reservoir, flow, capacity[:, None], initial=capacity)
dry = (level <= 0).mean(axis=1)
level.shape

# %%

chosen = [7, 31, 63]
colours = ("#93c5fd", "#2563a8", "#c2570c")
fig, (top, below) = plt.subplots(2, 1, figsize=(8, 6))
for row, colour in zip(chosen, colours, strict=True):
    top.plot(weather["date"], level[row], color=colour, label=f"{capacity[row]:,.0f} m³")
top.set(title="water in the reservoir, m³", ylim=(0, None))
top.legend(loc="lower right", ncols=3, bbox_to_anchor=(1, 1))
below.plot(capacity, 100 * dry, color="#3f3f46")
for row, colour in zip(chosen, colours, strict=True):
    below.plot(capacity[row], 100 * dry[row], "o", color=colour)
below.set(title="days without water, %", xlabel="capacity, m³", ylim=(0, None))
plt.show()
