"""Wavefront loops of any weights and operators on a GPU."""
