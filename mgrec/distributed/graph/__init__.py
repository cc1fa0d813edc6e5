"""Lazy results: the graph of three phases."""
