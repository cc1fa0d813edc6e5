"""Banded systems of linear equations."""
