"""Filters of constant coefficients: cascades of sections."""
