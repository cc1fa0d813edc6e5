"""Repeated solves of one shape: one message to each worker, and no graph."""
