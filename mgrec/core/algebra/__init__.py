"""What a recurrence is made of: maps and their laws, coefficients, what functions compute."""
