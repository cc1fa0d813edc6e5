"""One recurrence over all the workers of a cluster."""
