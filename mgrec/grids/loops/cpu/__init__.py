"""Wavefront loops of any weights and operators in host memory."""
