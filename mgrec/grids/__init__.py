"""Recurrences over a grid, whose cells need the cells above and to the left of them."""
