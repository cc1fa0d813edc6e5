"""What tests of the studies share."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Import a module of ``benchmarks``, which is never installed, by its name there."""

    def load(name: str) -> ModuleType:
        # At the end: what is tested stays the installed mgrec.
        monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT)])
        return importlib.import_module(f"benchmarks.{name}")

    return load
