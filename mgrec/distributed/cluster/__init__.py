"""For users of a cluster, beside solving."""
