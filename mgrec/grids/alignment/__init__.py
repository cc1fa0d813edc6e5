"""Alignment of two sequences, the query downwards and the target to the right.

H[i, j] is the score of the best alignment that ends with query[i] and target[j]; F[i, j] of one that
ends with query[i] in a gap, E[i, j] with target[j] in a gap (Gotoh 1982; docs/how/grids.md has the
equations). Linear gaps, with gap = extend, need neither E nor F:

    H[i, j] = max(H[i-1, j-1] + score(query[i], target[j]), max(H[i-1, j], H[i, j-1]) + gap)

A backend implements two phases:

``determine(scoring, (query, target), carry_in, origin, dtype, table=None) -> Edges``
    Determine one tile. `query` and `target` are arrays (n,) and (m,) of one integer dtype: uint8
    codes if the scoring has a table. The :class:`.recurrence.Edges` are in host memory or on the
    device. `origin` is the tile's first row and column in the whole grid; the best cell is
    counted from there. `dtype` is that of H, int64 or float64. H is written to `table`, an array
    (n, m) of `dtype` with contiguous rows, if given. A tile without rows or columns returns its
    carry-in. The mode matters in two ways: scores of local alignments are at least 0, and only
    these need the best cell.
``determine_pairs(scoring, queries, targets, dtype) -> array (pairs, 3)``
    Return score, query_end and target_end of pairs in two :class:`.sequences.Sequences`, in host
    memory. One sequence on a side is paired with all on the other. The kernel computes the borders
    of :func:`.recurrence.carry_in_from`. Among equal scores the smallest target_end wins, then the
    smallest query_end. Candidates are all cells of a local alignment (0, −1, −1 if none is above
    0), and the last row and column of a semi-global one. A global alignment ends in the last cell.
    If a sequence is empty, a global alignment scores one gap, others 0; the ends are n − 1 and m −
    1, or −1 and −1 for local alignments.

Codes are below len(table). An integer `dtype` represents every score of the whole grid exactly.
Kernels may compute in a narrower one that represents all scores of a tile.
"""
