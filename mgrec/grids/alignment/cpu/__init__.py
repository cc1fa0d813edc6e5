"""Alignments in host memory: score encodings, tiles and many pairs."""
