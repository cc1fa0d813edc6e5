"""What the papers' studies make of their times; their kernels and calls have tests of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib")
# With the panels of its picture.
PAPERS = {"hou_2018": 4, "pogorelskih_2019": 2, "wakatani_2012": 8, "wakatani_2013": 6}
each_paper = pytest.mark.parametrize("paper", PAPERS)


def count_panels(load: Any, paper: str, record: dict[str, Any]) -> int:
    figure = load(f"papers.{paper}.report").draw(record)
    return sum(axes.get_visible() for axes in figure.axes)


@each_paper
def test_stored_results_have_the_tables_that_are_made_of_them(load: Any, paper: str) -> None:
    records, tables = load("harness.records"), load(f"papers.{paper}.report").tables
    paths = list(records.RESULTS.glob(f"{paper.replace('_', '-')}-*.json"))
    assert paths
    for path in paths:
        record = records.read(path)
        text = tables(record)
        assert text == path.with_suffix(".md").read_text()
        assert not {"None", "nan"} & set(text.split())
        assert count_panels(load, paper, record) == PAPERS[paper]
        # Nothing is told or drawn of what was not measured, apart from the reason.
        reason = {"case": "one", "candidate": "sor", "reason": "there is none"}
        bare = record | {"cases": [], "not_measured": [reason]}
        assert "##" not in tables(bare)
        assert "not measured, because there is none" in tables(bare)
        count_panels(load, paper, bare)
        # Each time counts.
        cases = [{**row, "median": 2 * row["median"]} for row in record["cases"][:1]]
        assert tables(record | {"cases": [*cases, *record["cases"][1:]]}) != text


def test_what_deviates_is_not_measured(load: Any) -> None:
    require_near, wanted = load("papers.hou_2018.measure").require_near, np.arange(9.0)
    require_near(wanted + 1e-5, wanted)
    with pytest.raises(ArithmeticError, match=r"deviates from the loop by 0\.12"):
        require_near(wanted + 1, wanted)
    study, ones = load("harness.study").Study("study"), np.ones(4)
    calls = {"right": lambda: None, "wrong": lambda: None}
    load("papers.timing").time_calls(
        study, load("papers.timing").HOST, "case", calls, lambda name: ones * (1 + (name == "wrong")), ones
    )
    assert [row["candidate"] for row in study.cases] == ["right"]
    assert study.missing[0]["reason"] == "ArithmeticError: deviates by 1 of the norm"


def test_the_phases_on_one_thread_are_the_loop(load: Any) -> None:
    loops = load("papers.loops")
    a, b = np.random.default_rng(1).random((2, 1000))
    w, p, *space = (np.empty(1000) for _ in range(6))
    plain = loops.loop_arrays(a, b, w)
    np.testing.assert_allclose(loops.linear_phases(a, b, space[0], p), plain, rtol=1e-13)
    plain = loops.rational_loop(a + 3, b, w)
    np.testing.assert_allclose(loops.rational_phases(a + 3, b, *space[:3], p), plain, rtol=1e-12)


SMALL = {
    "hou_2018": ((8, range(3, 5), range(6, 9, 2)), "| 8 x 32 |"),
    "pogorelskih_2019": (((3, 4), 31, 8), "| ns an unknown, by systems | 3 | 4 |"),
    "wakatani_2012": ((range(8, 11),), "figure 1: the P-scheme on one thread"),
    "wakatani_2013": ((range(8, 11),), "figure 1: the P-scheme on one thread"),
}


@pytest.mark.extended
@each_paper
def test_they_run_without_a_gpu(
    load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paper: str
) -> None:
    monkeypatch.setenv("MGREC_NUM_THREADS", "1")  # as the studies set it
    command, (given, words) = load(f"papers.{paper}.__main__"), SMALL[paper]
    study = load("harness.study").Study("study")
    command.on_cpu(study, *given)
    path = command.STUDY.write(study.record("here"), tmp_path)
    command.STUDY.main(["--plot", str(path)])
    assert words in path.with_suffix(".md").read_text()
    assert path.with_suffix(".png").stat().st_size > 1000


@pytest.mark.gpu
@pytest.mark.parametrize(("year", "given"), [(2012, ((2**12,),)), (2013, (2**14, 2**12))])
def test_they_run_on_a_gpu(load: Any, tmp_path: Path, year: int, given: Any) -> None:
    command = load(f"papers.wakatani_{year}.__main__")
    study = load("harness.study").Study("study")
    study.on_device()
    command.on_gpu(study, *given)
    assert study.missing == []
    command.STUDY.write(study.record("here"), tmp_path)


@pytest.mark.gpu
def test_all_candidates_agree_on_a_gpu(load: Any) -> None:
    study = load("harness.study").Study("study")
    gpu, measure = (load(f"papers.pogorelskih_2019.{name}") for name in ("gpu", "measure"))
    measure.systems(study, gpu.GPU, "batch", 40, 255)
    for rows in (255, 8191):
        measure.systems(study, gpu.GPU, "single", 1, rows)
    assert study.missing == []
    assert len(study.cases) == 11 + 2 * 6
