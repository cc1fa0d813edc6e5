"""Groups: the processes that solve one recurrence together, each with its part of the axis."""
