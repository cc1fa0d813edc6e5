"""Wavefront loops of any weights and operators on one GPU: tiles, and compensation."""
