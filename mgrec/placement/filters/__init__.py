"""Filters where their arrays are."""
