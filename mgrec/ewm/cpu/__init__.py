"""Exponentially weighted statistics on the CPU: one pass over the series, whatever is missing."""
