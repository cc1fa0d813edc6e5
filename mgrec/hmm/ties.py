"""When two paths are a tie."""

TIE = 1e-10
"""Scores (logarithms) that differ by less are ties. Chunks change the rounding of scores, and
would otherwise break ties in another way than the loop over the whole sequence."""
