"""Affine maps of several states, over four pairs of operators."""
