"""Exponentially weighted statistics, as in pandas: means, sums, variances and correlations."""
