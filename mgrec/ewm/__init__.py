"""Exponentially weighted statistics: means, sums and variances of what a series was so far."""
