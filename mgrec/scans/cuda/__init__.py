"""Programs and launches of transfer maps."""
