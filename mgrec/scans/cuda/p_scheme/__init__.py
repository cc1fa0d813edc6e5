"""P-scheme/G as its papers describe it."""
