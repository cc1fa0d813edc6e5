"""Documents show numbers of stored results, and the chart is drawn from them."""

import json

import pytest


@pytest.fixture
def rows(load):
    return load("published.rows")


@pytest.fixture
def stored(rows, tmp_path, monkeypatch):
    """Write results into an empty folder."""
    monkeypatch.setattr(rows.records, "RESULTS", tmp_path)
    rows.newest.cache_clear()

    def write(name, **record):
        (tmp_path / f"{name}.json").write_text(json.dumps(record))

    yield write
    rows.newest.cache_clear()


def test_a_number_is_found_by_its_names(rows, stored):
    case = {"case": "a", "candidate": "mgrec", "median": 0.25, "steps": 10**9}
    stored("cpu-here-2026-01-02", cases=[case], date="2026-01-02 03:04:05Z")
    found = rows.newest("cpu-here")
    assert found.date == "2026-01-02"
    assert found.number("a", "mgrec", "ms") == 250
    assert found.number("a", "mgrec", "ns") == 0.25
    assert found.number("a", "mgrec", "GCUPS") == 4


def test_rows_of_gpus_name_their_solver_or_filter(rows, stored):
    stored(
        "x-gpu-2026-01-02",
        date="2026-01-02",
        machine={"gpu": "H100"},
        rows=[
            {"case": "one", "solver": "cuSPARSE", "in a row ms": 2.0, "same": True},
            {"filter": "order 1", "samples": 1000, "dtype": "f4", "times": 3.0},
        ],
    )
    found = rows.newest("x-gpu")
    assert found.machine == "H100"
    assert found.number("one", "cuSPARSE", "ms") == 2.0
    assert found.number("order 1: 1,000 f4", "", "times") == 3.0


def test_the_newest_result_counts(rows, stored):
    for day in ("01", "03", "02"):
        case = {"case": "a", "candidate": "", "ms": int(day)}
        stored(f"s-here-2026-01-{day}", cases=[case], date=f"2026-01-{day}")
    stored("s-here-too-2026-01-09", cases=[], date="2026-01-09")
    assert rows.newest("s-here").number("a", "", "ms") == 3


def test_what_was_not_measured_is_an_error(rows, stored):
    stored("s-here-2026-01-01", cases=[{"case": "a", "candidate": "b"}], date="2026-01-01")
    with pytest.raises(LookupError, match=r"s-here-2026-01-01\.json has no 'ms' of 'b' in 'a'"):
        rows.newest("s-here").number("a", "b", "ms")
    with pytest.raises(LookupError, match="no result of 's-there'"):
        rows.newest("s-there")


def test_the_chart_of_the_readme_is_that_of_the_results(load):
    chart = load("published.chart")
    assert chart.PATH.read_text() == chart.draw()


def test_the_chart_shows_losses(load):
    times = [call.times for calls in load("published.calls").CALLS.values() for call in calls]
    assert min(times) < 1 < max(times)
    assert len(times) >= 15
