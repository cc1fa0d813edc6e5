"""Alignment scores of a tile by a table, column by column in stripes (Farrar 2007)."""
