"""Exponentially weighted statistics."""
