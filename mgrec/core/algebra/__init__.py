"""Transfer maps, coefficients and operators, and the fingerprints of their functions."""
