"""Calls of the papers' studies are checked before they are timed."""

from __future__ import annotations

from typing import Any


def test_a_candidate_that_is_wrong_is_not_timed(load: Any) -> None:
    study = load("harness.study").Study("study")
    timing = load("papers.timing")
    ones = load("cpu.tridiagonal").np.ones(4)
    calls = {"right": lambda: None, "wrong": lambda: None}
    timing.time_calls(study, None, "case", calls, lambda name: ones * (1 + (name == "wrong")), ones)
    assert [row["candidate"] for row in study.cases] == ["right"]
    assert study.missing[0]["reason"] == "ArithmeticError: deviates by 1 of the norm"
