"""
A siren that speaks: lfilter
============================

A siren passes through a vocal tract that moves from vowel to vowel. The tract is a cascade of three
resonances, the formants, whose coefficients change with each sample: :func:`mgrec.signal.lfilter`
with `b` and `a` of shape (samples, 3).
"""

from timeit import repeat

import matplotlib.pyplot as plt
import numba
import numpy as np
import scipy.signal

from mgrec.signal import lfilter

RATE = 44_100  # Hz
VOWELS = "a i u a"
FORMANTS = {"a": (800, 1200, 2500), "i": (300, 2300, 3000), "u": (325, 700, 2500)}  # Hz
BANDWIDTH = 80  # Hz
time = np.arange(10 * RATE) / RATE

# %%
# The siren is a sawtooth whose pitch rises and falls four times.

pitch = 160 + 60 * np.sin(2 * np.pi * 0.4 * time)
siren = scipy.signal.sawtooth(2 * np.pi * np.cumsum(pitch) / RATE)

# %%
# The frequencies of the formants are interpolated between the vowels. A pair of poles r·exp(±i·θ)
# stays inside the unit circle, and the gain keeps the response at 0 Hz at 1.

moments = np.linspace(0, time[-1], len(VOWELS.split()))
targets = np.array([FORMANTS[vowel] for vowel in VOWELS.split()])
radius = np.exp(-np.pi * BANDWIDTH / RATE)
sections = []
for formant in range(3):
    frequency = np.interp(time, moments, targets[:, formant])
    middle = -2 * radius * np.cos(2 * np.pi * frequency / RATE)
    a = np.stack([np.ones_like(middle), middle, np.full_like(middle, radius**2)], axis=1)
    sections.append((a.sum(axis=1, keepdims=True), a))


def speak(filtered):
    voice = siren
    for b, a in sections:
        voice = filtered(b, a, voice)
    return voice


voice = speak(lfilter)

# %%
# A loop over the samples that numba compiles gives the same bits. SciPy's filter has constant
# coefficients, so that it is called frame by frame. Frames of 64 samples (1.5 ms) pass on their
# states, and their coefficients jump.


@numba.njit
def loop(b, a, x):
    y, first, second = np.empty_like(x), 0.0, 0.0
    for n in range(x.size):
        y[n] = first + b[n, 0] * x[n]
        first = second + 0.0 * x[n] - a[n, 1] * y[n]
        second = 0.0 * x[n] - a[n, 2] * y[n]
    return y


def by_frames(b, a, x, frame=64):
    y, state = np.empty_like(x), np.zeros(2)
    for n in range(0, x.size, frame):
        part = slice(n, n + frame)
        y[part], state = scipy.signal.lfilter(b[n], a[n], x[part], zi=state)
    return y


assert np.array_equal(voice, speak(loop))
jumps = np.abs(speak(by_frames) - voice).max() / np.abs(voice).max()
filters = {"mgrec": lfilter, "numba loop": loop, "SciPy by frames": by_frames}
seconds = {
    name: min(repeat(lambda function=function: speak(function), number=1, repeat=5))
    for name, function in filters.items()
}
f"frames differ by {jumps:.2%}; " + ", ".join(f"{k}: {1e3 * v:.1f} ms" for k, v in seconds.items())

# %%
# The spectrum of the voice over time, and the frequencies of the formants:

figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
axes.specgram(voice, NFFT=1024, Fs=RATE, noverlap=512, vmin=-120)
for formant in range(3):
    axes.plot(moments, targets[:, formant], "w--", linewidth=1)
axes.set(xlabel="s", ylabel="Hz", ylim=(0, 4000))
for moment, vowel in zip(moments, VOWELS.split(), strict=True):
    axes.annotate(vowel, (moment, 4050), ha="center", annotation_clip=False)
plt.show()
