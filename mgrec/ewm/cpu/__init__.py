"""Exponentially weighted statistics on the CPU, in one pass over the series."""
