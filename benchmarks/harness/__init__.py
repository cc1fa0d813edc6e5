"""What the studies share: clocks, records, the machine, the coefficients of the papers."""
