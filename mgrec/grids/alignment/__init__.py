"""Alignment of two sequences, the query downwards and the target to the right.

H[i, j] is the score of the best alignment that ends with query[i] and target[j], F[i, j] of the
best that ends with query[i] opposite to none, E[i, j] with target[j] opposite to none (Gotoh 1982):

    F[i, j] = max(H[i-1, j] + gap, F[i-1, j] + extend)
    E[i, j] = max(H[i, j-1] + gap, E[i, j-1] + extend)
    H[i, j] = max(H[i-1, j-1] + score(query[i], target[j]), E[i, j], F[i, j])

and at least 0 where the alignment is local (Smith & Waterman 1981). Where gaps are linear, gap =
extend, neither E nor F is needed:

    H[i, j] = max(H[i-1, j-1] + score(query[i], target[j]), max(H[i-1, j], H[i, j-1]) + gap)

What a backend gives, in its kernels of the family "wavefront":

``determine(scoring, (query, target), entry, origin, dtype, table=None) -> Edges``
    One tile. `query` and `target` are arrays (n,) and (m,) of one integer dtype, uint8 codes where
    the scoring has a table; `entry` is an :class:`.tiles.Entry` in host memory or on the device,
    `origin` the row and column of the tile in the whole grid, which its best is counted from, and
    `dtype` that of H, int64 or float64. All of H is written to `table`, an array (n, m) of
    `dtype`, where one is given. A tile without rows or columns hands on what it got. Kernels know
    nothing of borders: a mode says only whether scores are at least 0, and whether the best
    cell is wanted, which is where the alignment is local.
``determine_pairs(scoring, queries, targets, dtype) -> array (p, 3)``
    Score, query_end and target_end of p pairs, in host memory, of two
    :class:`.sequences.Sequences`. One sequence on a side is paired with all on the other. The
    kernel makes the borders of :mod:`.borders`. Of equal scores the smallest target_end counts,
    then the smallest query_end: of all cells of a local alignment (0, −1, −1 where none is
    above 0), of the last row and the last column of a semi-global one, those before the first
    characters not among them. A global alignment ends in the last cell. Where one sequence is
    empty the score of a global alignment is that of one gap, else 0, and the ends are n − 1 and
    m − 1; −1 and −1 where it is local.

Codes of letters at or above len(table) never come in. With integers `dtype` holds every score of
the whole grid exactly; kernels may compute in a narrower one where it holds all of a tile.
"""
