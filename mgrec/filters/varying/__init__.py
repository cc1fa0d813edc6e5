"""Filters whose coefficients vary in time."""
