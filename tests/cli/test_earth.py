"""The series of the demo: measured land and sea, and the coefficients that follow."""

import math
import pickle

import numpy as np
import pytest

from mgrec.cli import earth

is_sea = earth.MaritimeAir(earth.PARALLELS).is_sea


def place(latitude, longitude):
    """The number of a place: parallels from the north, places from 180° W."""
    row = round((90 - latitude) * 12 - 0.5)
    return row * earth.POINTS + round((longitude + 180) * 120)


@pytest.mark.parametrize(
    ("name", "latitude", "longitude", "sea"),
    [
        ("north pole", 89.9, 0, True),
        ("south pole", -89.9, 0, False),
        ("Sahara", 23, 12, False),
        ("Pacific", 0, -140, True),
        ("Paris", 48.85, 2.35, False),
        ("Bay of Biscay", 45.5, -5, True),
        ("Madagascar", -19, 47, False),
        ("Tasman Sea", -38, 160, True),
    ],
)
def test_known_places(name, latitude, longitude, sea):
    at = place(latitude, longitude)
    assert is_sea(at, at + 1).tolist() == [sea], name


def test_any_piece_is_that_of_the_whole():
    whole = is_sea(0, earth.PARALLELS * earth.POINTS)
    assert whole.size == 93_312_000
    assert 0.66 < whole.mean() < 0.68  # by places, not by area
    pieces = (0, 0), (0, 1), (7, 50_000), (40_000_001, 41_000_000), (93_311_999, 93_312_000)
    for begin, end in pieces:
        np.testing.assert_array_equal(is_sea(begin, end), whole[begin:end])


@pytest.mark.parametrize("turns", [3, earth.PARALLELS])
def test_coefficients_are_those_of_the_formula(turns):
    air = earth.MaritimeAir(turns)
    begin, end = earth.POINTS * 3 // 2, earth.POINTS * 5 // 2
    s, t = air[begin:end]
    for i in (0, earth.POINTS // 2 - 1, earth.POINTS // 2, earth.POINTS - 1):
        latitude = air.latitude()[(begin + i) // earth.POINTS]
        step = 2 * math.pi * 6371 * math.cos(math.radians(latitude)) / 43200
        at = air.first * earth.POINTS + begin + i
        sea = bool(is_sea(at, at + 1)[0])
        length = 500 if sea else 1000
        assert s[i] == pytest.approx(math.exp(-step / length), rel=1e-15)
        assert t[i] == pytest.approx(1 - s[i] if sea else 0, rel=1e-9)


def test_turns_start_at_75_north_and_a_worker_gets_no_data():
    for turns in (1, 1620, 1980):
        assert earth.MaritimeAir(turns).latitude()[0] == pytest.approx(75, abs=0.1)
    assert earth.MaritimeAir(1620).latitude()[-1] == pytest.approx(-60, abs=0.1)
    assert earth.MaritimeAir(earth.PARALLELS).latitude()[0] == pytest.approx(90, abs=0.1)
    assert len(pickle.dumps(earth.MaritimeAir(earth.PARALLELS))) < 200
