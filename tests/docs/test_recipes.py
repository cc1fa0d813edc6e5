"""The classes of docs/recipes run, with stand-ins for packages that are not installed."""

import runpy
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy import signal

RECIPES = Path(__file__).parents[2] / "docs" / "recipes"
SOS = signal.butter(5, [300, 6000], "bandpass", fs=30_000, output="sos")


class Recording:
    """What the filter uses of ``spikeinterface.core.BaseRecording``."""

    def __init__(self, segments=(), dtype="i2", channels=0):
        self._recording_segments, self.dtype = list(segments), np.dtype(dtype)
        self.channels, self.annotations = channels, {}

    def get_num_channels(self):
        return self.channels

    def get_dtype(self):
        return self.dtype

    def annotate(self, **annotations):
        self.annotations |= annotations

    def add_recording_segment(self, segment):
        self._recording_segments.append(segment)


class BasePreprocessor(Recording):
    def __init__(self, recording, sampling_frequency=None, channel_ids=None, dtype=None):
        super().__init__((), dtype or recording.get_dtype(), recording.get_num_channels())


class Segment:
    """A segment in memory, which notes the frames that are read."""

    def __init__(self, traces):
        self.traces, self.frames = traces, []

    def get_num_samples(self):
        return len(self.traces)

    def get_traces(self, start_frame, end_frame, channel_indices):
        self.frames.append((start_frame, end_frame))
        channels = slice(None) if channel_indices is None else channel_indices
        return self.traces[start_frame:end_frame, channels]


class BasePreprocessorSegment:
    def __init__(self, parent_recording_segment):
        self.parent_recording_segment = parent_recording_segment

    def get_num_samples(self):
        return self.parent_recording_segment.get_num_samples()


@pytest.fixture
def zero_phase_filter(monkeypatch):
    try:
        import spikeinterface  # noqa: F401
    except ImportError:
        name = "spikeinterface.preprocessing.basepreprocessor"
        for parent in ("spikeinterface", "spikeinterface.preprocessing"):
            monkeypatch.setitem(sys.modules, parent, ModuleType(parent))
        module = ModuleType(name)
        module.BasePreprocessor = BasePreprocessor
        module.BasePreprocessorSegment = BasePreprocessorSegment
        monkeypatch.setitem(sys.modules, name, module)
    else:
        pytest.skip("the stand-ins are for machines without SpikeInterface")
    return runpy.run_path(str(RECIPES / "spikeinterface_filter.py"))["ZeroPhaseFilter"]


def test_any_part_of_a_recording_is_that_of_the_whole(zero_phase_filter):
    rng = np.random.default_rng(3)
    traces = [rng.normal(1000, 200, (frames, 4)).astype("i2") for frames in (40_000, 9_000)]
    segments = [Segment(part) for part in traces]
    filtered = zero_phase_filter(Recording(segments, channels=4), SOS)
    assert filtered.get_dtype() == np.float32
    assert filtered.annotations == {"is_filtered": True}
    assert filtered._kwargs["sos"] == SOS.tolist()
    for part, segment in zip(traces, filtered._recording_segments, strict=True):
        wanted = signal.sosfiltfilt(SOS, part, axis=0).astype("f4")
        assert segment.get_num_samples() == len(part)
        for frames in ((0, 3000), (2500, 7001), (8990, 9000), (None, None), (100, 101)):
            for channels in (slice(None), slice(1, 3), np.array([2, 0]), None):
                result = segment.get_traces(*frames, channels)
                part_wanted = wanted[slice(*frames)]
                part_wanted = part_wanted if channels is None else part_wanted[:, channels]
                assert result.dtype == np.float32
                np.testing.assert_allclose(result, part_wanted, rtol=0, atol=1e-4)


def test_a_part_reads_its_neighbourhood_only(zero_phase_filter):
    segment = Segment(np.ones((100_000, 2), "i2"))
    filtered = zero_phase_filter(Recording([segment], channels=2), SOS)
    segment.frames.clear()
    filtered._recording_segments[0].get_traces(50_000, 60_000, slice(None))
    assert min(start for start, _ in segment.frames) == 40_000
    assert max(stop for _, stop in segment.frames) == 70_000
