"""Halves of the tests that need a GPU, each for one run of many processes."""

from collections import Counter

# Tests of ten seconds and more, which mostly compile, count as so many others.
SLOW = 20


def is_slow(test):
    return test.get_closest_marker("slow") is not None


def half_of(tests, number, processes):
    """Return half 1 or 2 of the tests: files stay whole, and both halves take about as long.

    Slow tests come first in each process: with ``--dist worksteal`` each begins with a block of
    the order, all of the same length.
    """
    weights = Counter()
    for test in tests:
        weights[test.path] += SLOW if is_slow(test) else 1
    sums, half_of_file = {1: 0, 2: 0}, {}
    for path, weight in weights.most_common():
        half_of_file[path] = min(sums, key=sums.get)
        sums[half_of_file[path]] += weight
    chosen = [test for test in tests if half_of_file[test.path] == number]
    slow = [test for test in chosen if is_slow(test)]
    quick = [test for test in chosen if not is_slow(test)]
    ordered, start = [], 0
    for process in range(processes):
        first = slow[process::processes]
        end = len(chosen) * (process + 1) // processes
        stop = max(start, start + end - len(ordered) - len(first))
        ordered += first + quick[start:stop]
        start = stop
    return ordered
