"""Functions for users of a cluster: warm up, place, persist, show progress."""
