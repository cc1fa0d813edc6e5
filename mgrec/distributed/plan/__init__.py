"""Repeated solves of one shape: messages from worker to worker, no graph."""
