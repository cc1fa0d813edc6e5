"""Recordings of other formats than .wav, and longer ones."""

import json
import os

import dask.array as da
import numpy as np
import pytest
import soundfile
from scipy import signal

from mgrec.cli import recordings, stores

RATE = 100


@pytest.fixture
def folder(tmp_path):
    x = 0.3 * np.random.default_rng(7).uniform(-1, 1, (2000, 2))
    soundfile.write(tmp_path / "x.wav", x, RATE, "PCM_16")
    soundfile.write(tmp_path / "mono.wav", x[:, 0], RATE, "PCM_16")
    b, a = signal.butter(3, 0.3)
    (tmp_path / "ba.json").write_text(json.dumps([b.tolist(), a.tolist()]))
    return tmp_path


@pytest.fixture
def run(mgrec, address):
    return lambda *words: mgrec("filter", *words, "--cluster", address)


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24"])
@pytest.mark.parametrize("name", ["x.flac", "x.rf64", "x.w64"])
def test_sound_of_other_formats(run, folder, name, subtype):
    x = 0.3 * np.random.default_rng(5).uniform(-1, 1, (700, 2))
    soundfile.write(folder / name, x, RATE, subtype, format=name[2:].upper())
    result = run(folder / name, "-o", folder / "y.npy", "--butter", 1, "--low", 10, "--chunk", 99)
    assert result.exit_code == 0, result.output
    b, a = signal.butter(1, 10, fs=RATE)
    wanted = signal.lfilter(b, a, soundfile.read(folder / name)[0], axis=0)
    np.testing.assert_allclose(np.load(folder / "y.npy"), wanted, rtol=0, atol=1e-6)


def test_recordings_above_four_gigabytes(folder):
    """Of which only the ends are written, to a file with a hole."""
    samples = 1_200_000_000
    y = da.zeros((samples,), chunks=100_000_000, dtype=np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores, "reserve", lambda file, size, path: os.ftruncate(file, size))
        target = recordings.create(folder / "long.wav", y, RATE)
    target[:3] = np.float32([1, 2, 3])
    target[samples - 2 :] = np.float32([4, 5])
    with soundfile.SoundFile(folder / "long.wav") as file:
        assert (file.format, file.frames, file.samplerate) == ("RF64", samples, RATE)
    found = recordings.find(folder / "long.wav")
    assert (found.stored.shape, found.rate, found.axis) == ((samples,), RATE, 0)
    np.testing.assert_array_equal(found.stored[:4], [1, 2, 3, 0])
    np.testing.assert_array_equal(found.stored[samples - 3 :], [0, 4, 5])


@pytest.mark.parametrize("name", ["mono.wav", "x.wav"])
def test_rf64_is_written_when_it_is_asked_for(run, folder, name):
    result = run(folder / name, "-o", folder / "y.rf64", "--ba", folder / "ba.json")
    assert result.exit_code == 0, result.output
    y, rate = soundfile.read(folder / "y.rf64")
    assert rate == RATE
    b, a = signal.butter(3, 0.3)
    x = soundfile.read(folder / name)[0]
    np.testing.assert_allclose(y, signal.lfilter(b, a, x, axis=0), rtol=0, atol=1e-6)


def test_a_recorder_that_does_not_know_the_size(folder):
    """The header tells the largest size, and samples go on to the end."""
    data = (folder / "mono.wav").read_bytes()
    at = data.index(b"data") + 4
    (folder / "open.wav").write_bytes(
        data[:4] + b"\xff" * 4 + data[8:at] + b"\xff" * 4 + data[at + 4 :]
    )
    assert recordings.find(folder / "open.wav").stored.shape == (2000,)
