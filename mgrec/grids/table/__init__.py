"""Summed-area tables."""
