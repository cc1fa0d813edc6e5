"""Recurrences on one GPU: the traced algebra, its kernels and their compilation."""
