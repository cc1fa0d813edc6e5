"""Alignments of sequences on a GPU: one tile by all of it, or many pairs by a warp each."""
