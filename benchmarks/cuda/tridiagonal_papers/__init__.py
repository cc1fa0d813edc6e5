"""The studies of two papers on tridiagonal systems, with mgrec's kernels beside their figures."""
