"""
How large must the reservoir be? scan
=====================================

Rain fills a reservoir, and a town takes water from it. The level stays between 0 and the capacity:
each day adds the flow to the level and clips the level. Several such days compose to one map of the
same form, which has a shift, a lowest and a highest level. :func:`mgrec.scan` can therefore solve
the recurrence in chunks.

The rain is that of Seattle, 2012 to 2015 (NOAA), which vega_datasets contains.
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
# The catchment is a tenth of a square kilometre, so that a millimetre of rain is 100 cubic metres.
# The town takes 230 cubic metres a day, and half as much again in summer. One call computes all
# capacities from 500 to 40,000 cubic metres.

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
