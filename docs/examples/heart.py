"""
A heart, without drift and mains: sosfiltfilt
=============================================

PyWavelets contains an electrocardiogram of three seconds: 1,024 samples at 360 Hz. Breathing moves
its baseline, and the mains add a ripple. A band-pass filter removes both. It is applied forwards
and backwards, so that it does not shift the beats.
"""

import matplotlib.pyplot as plt
import numpy as np
import pywt
import scipy.signal

from mgrec.signal import lfilter, sosfiltfilt

RATE = 360  # Hz
ecg = pywt.data.ecg().astype(float)
seconds = np.arange(ecg.size) / RATE

# %%
# Design two sections for 0.5 to 40 Hz. :func:`mgrec.signal.sosfiltfilt` takes the arguments of
# SciPy's function, and also Dask and CuPy arrays.

sos = scipy.signal.butter(2, [0.5, 40], "bandpass", fs=RATE, output="sos")
clean = sosfiltfilt(sos, ecg)
bool(np.allclose(clean, scipy.signal.sosfiltfilt(sos, ecg)))

# %%
# Detect the beats as Pan and Tompkins (1985) do. The slope is steep at a beat: square it, and
# smooth it by a filter of first order with a time constant of a twentieth of a second.

decay = np.exp(-1 / (0.05 * RATE))
energy = lfilter([1 - decay], [1.0, -decay], np.gradient(clean) ** 2)
beats, _ = scipy.signal.find_peaks(energy, height=energy.max() / 3, distance=RATE // 3)
# The energy peaks just after the beat.
peaks = [beat - 30 + clean[beat - 30 : beat].argmax() for beat in beats]

# %%

fig, (top, below) = plt.subplots(2, 1, sharex=True, figsize=(8, 5))
top.plot(seconds, ecg, color="#a1a1aa", label="as recorded")
top.plot(seconds, clean, color="#2563a8", label="0.5 to 40 Hz")
top.plot(seconds[peaks], clean[peaks], "o", color="#c2570c", label="beats")
rate = 60 * RATE / np.diff(peaks).mean()
top.set(title=f"{len(peaks)} beats, {rate:.0f} a minute")
top.legend(loc="lower right", ncols=3, bbox_to_anchor=(1, 1))
below.fill_between(seconds, energy, color="#dbeafe")
below.plot(seconds, energy, color="#2563a8")
below.set(xlabel="seconds", title="energy of the slope")
plt.show()
