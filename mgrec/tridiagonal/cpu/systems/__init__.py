"""Whole systems side by side: each lane of a register solves one of its own."""
