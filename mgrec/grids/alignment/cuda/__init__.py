"""Alignments on a GPU: all blocks compute one tile, or each warp aligns one of many pairs."""
