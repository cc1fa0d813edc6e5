"""Alignments in host memory: which numbers hold them, tiles, grids of tiles and many pairs."""
