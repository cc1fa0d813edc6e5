"""
Fit an equaliser in torch: sosfilt
==================================

A recording has passed through an unknown device: its amplifier is heard, but not specified. Two
second-order sections that are fitted to the input and the output imitate the device. torch
differentiates :func:`mgrec.signal.sosfilt` with respect to the coefficients.

The recording is the electrocardiogram of PyWavelets. This page is built where torch is installed.
"""

import matplotlib.pyplot as plt
import numpy as np
import pywt
import scipy.signal
import torch

from mgrec.signal import sosfilt

RATE = 360  # Hz
ecg = pywt.data.ecg().astype(float)
signal = torch.tensor((ecg - ecg.mean()) / ecg.std())

# %%
# The device is a band-pass filter, whose output has noise of one percent.

device = scipy.signal.butter(2, [3, 40], "bandpass", fs=RATE, output="sos")
random = np.random.default_rng(0)
output = scipy.signal.sosfilt(device, signal) + 0.01 * random.normal(size=ecg.size)
output = torch.tensor(output)

# %%
# Poles inside the unit circle keep the equaliser stable. Each section has a pair of poles
# r·exp(±i·θ), where r is a sigmoid of a parameter, and three free numerators.

SECTIONS = 2
radius = torch.full((SECTIONS,), 2.0, dtype=torch.float64, requires_grad=True)
angle = torch.tensor([0.1, 0.4], dtype=torch.float64, requires_grad=True)
numerators = torch.tensor([[0.5, 0.0, -0.5]] * SECTIONS, dtype=torch.float64, requires_grad=True)


def sections():
    r = torch.sigmoid(radius)
    denominators = torch.stack([torch.ones_like(r), -2 * r * torch.cos(angle), r**2], dim=1)
    return torch.cat([numerators, denominators], dim=1)


# %%
# L-BFGS minimises the squared error.

losses = []
optimiser = torch.optim.LBFGS(
    [radius, angle, numerators], max_iter=300, tolerance_change=1e-12, line_search_fn="strong_wolfe"
)


def closure():
    optimiser.zero_grad()
    loss = ((sosfilt(sections(), signal) - output) ** 2).mean()
    loss.backward()
    losses.append(loss.item())
    return loss


optimiser.step(closure)
f"mean squared error: {losses[0]:.4f} at first, {losses[-1]:.6f} at last"

# %%
# The responses of the device and of the equaliser:

fitted = sections().detach().numpy()
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.5), layout="constrained")
for label, sos in (("device", device), ("equaliser", fitted)):
    frequency, response = scipy.signal.sosfreqz(sos, 1024, fs=RATE)
    left.plot(frequency, 20 * np.log10(np.abs(response) + 1e-6), label=label)
left.set(xlabel="Hz", ylabel="dB", ylim=(-70, 10))
left.legend()
right.semilogy(losses)
right.set(xlabel="evaluation", ylabel="mean squared error")
plt.show()
