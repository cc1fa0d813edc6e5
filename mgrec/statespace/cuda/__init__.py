"""Kernels of state space models."""
