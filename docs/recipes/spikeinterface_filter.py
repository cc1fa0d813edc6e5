"""A zero-phase filter for SpikeInterface that has no seams, whatever parts of it are read."""

import dask.array as da
import numpy as np
from spikeinterface.preprocessing.basepreprocessor import BasePreprocessor, BasePreprocessorSegment

from mgrec.signal import sosfiltfilt


class ZeroPhaseFilter(BasePreprocessor):
    """Filter a recording forward and backward by second-order sections; the result is float32."""

    def __init__(self, recording, sos, chunk_size=10_000):
        super().__init__(recording, dtype="float32")
        self.annotate(is_filtered=True)
        for segment in recording._recording_segments:
            traces = Traces(segment, recording.get_num_channels(), recording.get_dtype())
            self.add_recording_segment(ZeroPhaseFilterSegment(segment, traces, sos, chunk_size))
        sos = np.asarray(sos).tolist()
        self._kwargs = {"recording": recording, "sos": sos, "chunk_size": chunk_size}


class ZeroPhaseFilterSegment(BasePreprocessorSegment):
    def __init__(self, segment, traces, sos, chunk_size):
        super().__init__(segment)
        chunks = (chunk_size, traces.shape[1])
        lazy = da.from_array(traces, chunks=chunks, name=False, meta=np.empty((0, 0), traces.dtype))
        self.filtered = sosfiltfilt(sos, lazy, axis=0, dtype="float32", assume_finite=True)

    def get_traces(self, start_frame, end_frame, channel_indices):
        part = self.filtered[start_frame:end_frame]
        part = part if channel_indices is None else part[:, channel_indices]
        return part.compute(scheduler="synchronous")


class Traces:
    """A segment as an array that Dask slices."""

    def __init__(self, segment, channels, dtype):
        self.segment, self.dtype, self.ndim = segment, np.dtype(dtype), 2
        self.shape = segment.get_num_samples(), channels

    def __getitem__(self, index):
        frames, channels = index
        return self.segment.get_traces(frames.start, frames.stop, channels)
