"""What users of a cluster do beside solving."""
