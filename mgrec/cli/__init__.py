"""The command ``mgrec``."""
