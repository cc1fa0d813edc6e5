"""Measurements of P-scheme/G, on CuPy's current device."""

from __future__ import annotations

from .cuda.p_scheme.measurement import choose, copy_bandwidth, measure, name_device, sweep

__all__ = ["choose", "copy_bandwidth", "measure", "name_device", "sweep"]
