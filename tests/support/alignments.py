"""Alignments cell by cell: the oracle of all tests of alignments."""

import numpy as np

import mgrec


def by_the_loop(pair, scores):
    """H, and the score and the end of the best alignment.

    `scores` are the arguments of :func:`mgrec.smith_waterman`.
    """
    gap, mode = scores["gap"], scores.get("mode", "local")
    extend = scores.get("extend")
    extend = gap if extend is None else extend
    query, target = pair
    n, m = query.size, target.size
    dtype = np.float64 if isinstance(gap, float) else np.int64
    h = np.zeros((n + 1, m + 1), dtype)
    if mode == "global":
        h[0, 1:] = gap + np.arange(m) * np.asarray(extend, dtype)
        h[1:, 0] = gap + np.arange(n) * np.asarray(extend, dtype)
    f, e = h + gap, h + gap
    if scores.get("matrix") is None:
        matches = np.where(query[:, None] == target, scores["match"], scores["mismatch"])
    else:
        matches = np.asarray(scores["matrix"])[query][:, target]
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            vertical, horizontal = f[i - 1, j], e[i, j - 1]
            h[i, j] = max(h[i - 1, j - 1] + matches[i - 1, j - 1], horizontal, vertical)
            if mode == "local":
                h[i, j] = max(h[i, j], 0)
            f[i, j] = max(h[i, j] + gap, vertical + extend)
            e[i, j] = max(h[i, j] + gap, horizontal + extend)
    return h[1:, 1:], _end_of(h, mode)


def _end_of(h, mode):
    """The score and the end: of equal ones the first by the target, then by the query."""
    n, m = h.shape[0] - 1, h.shape[1] - 1
    if mode == "global":
        return h[-1, -1], n - 1, m - 1
    if 0 in (n, m):
        return (0, -1, -1) if mode == "local" else (0, n - 1, m - 1)
    is_end = np.ones((n, m), bool)
    if mode == "semi-global":
        is_end[:-1, :-1] = False
    best = h[1:, 1:][is_end].max()
    if mode == "local" and best <= 0:
        return 0, -1, -1
    j, i = np.argwhere(((h[1:, 1:] == best) & is_end).T)[0].tolist()
    return best, i, j


def assert_right(sequences, wanted, scores):
    """Scores, ends and H of arrays in memory, of a device or in chunks."""
    h, end = wanted
    best = mgrec.smith_waterman(*sequences, **scores)
    have = mgrec.smith_waterman(*sequences, output="matrix", **scores)
    if hasattr(have, "compute"):
        best = tuple(part.compute(scheduler="sync") for part in best)
        have = have.compute(scheduler="sync")
    assert best == end
    np.testing.assert_array_equal(np.asarray(have), h, strict=True)
