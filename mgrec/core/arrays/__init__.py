"""Validation of arrays, their types and layouts, and the chunk that each backend receives."""
