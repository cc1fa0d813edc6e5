"""Factors of tridiagonal matrices, for repeated right-hand sides in host memory."""
