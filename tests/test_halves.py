"""The two halves of the GPU tests are disjoint, complete and begin with what takes long."""

from dataclasses import dataclass

import pytest
from halves import SLOW, half_of


@dataclass(frozen=True)
class Test:
    __test__ = False  # not one of pytest's own

    path: str
    number: int
    slow: bool = False

    def get_closest_marker(self, name):
        return self.slow or None


TESTS = [
    Test(f"file {path}", number, slow=path == 3 and number % 3 == 0)
    for path in range(9)
    for number in range(10 + 7 * path)
]


@pytest.mark.parametrize("processes", [1, 2, 15, 500])
def test_halves_are_disjoint_and_together_all(processes):
    first, second = (half_of(TESTS, number, processes) for number in (1, 2))
    assert sorted(map(repr, first + second)) == sorted(map(repr, TESTS))
    assert not {test.path for test in first} & {test.path for test in second}


def test_halves_take_about_as_long():
    weights = [sum(SLOW if t.slow else 1 for t in half_of(TESTS, k, 1)) for k in (1, 2)]
    assert max(weights) < 1.2 * min(weights)


def test_each_process_begins_with_slow_tests():
    halves = half_of(TESTS, 1, 4), half_of(TESTS, 2, 4)
    (tests,) = (half for half in halves if any(test.slow for test in half))
    size = len(tests) / 4
    for process in range(4):
        block = tests[int(process * size) : int((process + 1) * size)]
        slow = [test.slow for test in block]
        assert slow == sorted(slow, reverse=True)
        assert 2 <= sum(slow) <= 3
