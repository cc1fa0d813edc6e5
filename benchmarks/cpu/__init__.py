"""The CPU backend against its peers."""
