"""Linear filters with constant coefficients, as in ``scipy.signal``."""
