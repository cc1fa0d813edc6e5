"""Recurrences whose steps compose: transfer maps."""
