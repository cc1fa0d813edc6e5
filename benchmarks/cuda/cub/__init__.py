"""CUB, compiled as libraries and called from Python."""
