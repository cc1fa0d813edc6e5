"""Programs and launches of filters."""
