"""Wavefront loops of any weights and operators."""
