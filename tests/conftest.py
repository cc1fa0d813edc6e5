"""Settings of the whole suite: property-test profiles and tests that need a GPU."""

import gc
import importlib.util
import os
import shutil
from collections import Counter
from contextlib import ExitStack
from functools import cache

# Before NumPy is imported. Threads of BLAS that wait for others take all processors: dense solvers of a
# few hundred unknowns took four times as long.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
import pytest
from halves import half_of, is_slow
from hypothesis import HealthCheck, settings

# numba keeps what it compiles: collections find nothing, and take an eighth of the time of a run.
gc.set_threshold(100_000, 50, 100)

# A first example may compile a kernel, which says nothing about the time of the others.
PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# Only "thorough" draws other examples in each run: the suite finds the same each time.
settings.register_profile("quick", max_examples=25, derandomize=True, **PATIENT)
settings.register_profile("long", max_examples=200, derandomize=True, **PATIENT)
settings.register_profile("thorough", max_examples=5_000, **PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def pytest_addoption(parser):
    parser.addoption(
        "--require-gpu",
        action="store_true",
        help="fail, rather than skip, tests marked gpu where there is no CUDA GPU",
    )
    parser.addoption(
        "--extended", action="store_true", help="run the tests that say again what shorter ones say"
    )
    parser.addoption(
        "--emulated",
        action="store_true",
        help="run tests marked gpu by an emulated GPU: g++ compiles the CUDA kernels",
    )
    parser.addoption(
        "--half", type=int, choices=(1, 2), help="run half of the tests with -m gpu --dist worksteal"
    )


@cache
def missing_for_gpu() -> str | None:
    """Return what keeps this machine from running CUDA tests, or None."""
    if importlib.util.find_spec("cupy") is None:
        return "CuPy is not installed (pip install 'mgrec[cuda12]' or 'mgrec[cuda13]')"
    import cupy

    try:
        devices = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CuPy finds no GPU: {error}"
    return None if devices else "CuPy finds no GPU"


def left_out(config) -> dict[str, str]:
    """Return the markers of tests that do not run, and why."""
    reasons = {}
    if not config.getoption("extended"):
        reasons["extended"] = "to keep the suite short (give --extended)"
    if config.getoption("emulated"):
        reasons |= dict.fromkeys(("hardware", "slow"), "the GPU is emulated")
    elif not config.getoption("require_gpu") and (missing := missing_for_gpu()):
        reasons["gpu"] = missing
    return reasons


def is_emulated(item) -> bool:
    """Return whether a test runs on a GPU that is emulated for this test alone."""
    return bool(
        item.get_closest_marker("emulated")
        and item.get_closest_marker("gpu")
        and "gpu" in left_out(item.config)
        and shutil.which("g++")
    )


def is_left_out(item, names) -> bool:
    """Return whether a test has one of these markers; an emulated GPU is as good as a GPU."""
    found = {name for name in names if item.get_closest_marker(name)}
    return bool(found - {"gpu"} if is_emulated(item) else found)


def pytest_configure(config):
    if config.getoption("emulated"):
        from cuda_on_host import emulate

        stack = ExitStack()
        stack.enter_context(emulate(config))
        config.add_cleanup(stack.close)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    if not is_emulated(item):
        return (yield)
    from cuda_on_host import emulate

    with emulate(item.config):
        return (yield)


def pytest_report_header(config):
    return [f"left out: tests marked {name}: {why}" for name, why in left_out(config).items()]


@pytest.hookimpl(trylast=True)  # -m and -k come before
def pytest_collection_modifyitems(config, items):
    """Files with slow tests, or many, first: at the end no process is left alone with one."""
    # Skipped one by one, thousands of tests take seconds.
    names = {*left_out(config)}
    deselected = [item for item in items if is_left_out(item, names)]
    config.hook.pytest_deselected(items=deselected)
    items[:] = [item for item in items if not is_left_out(item, names)]
    if number := config.getoption("half"):
        half = half_of(items, number, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1)))
        config.hook.pytest_deselected(items=[*{*items} - {*half}])
        items[:] = half
    elif not config.pluginmanager.hasplugin("randomly"):
        items[:] = in_order_of_files(items)


def in_order_of_files(items):
    slow = {item.path for item in items if is_slow(item)}
    count = Counter(item.path for item in items)
    # Examples call kernels of all families. Early, both processes would compile these.
    count.update({path: 20 - count[path] for path in count if path.name == "test_docs.py"})
    return sorted(items, key=lambda item: (item.path not in slow, -count[item.path]))


def pytest_runtest_setup(item):
    is_required = item.config.getoption("require_gpu") and item.get_closest_marker("gpu")
    if is_required and (missing := missing_for_gpu()):
        pytest.fail(f"needs a CUDA GPU: {missing}", pytrace=False)


@pytest.fixture(scope="module", autouse=True)
def _small_heap():
    """Collections that tests ask for look at what is made from here on alone."""
    gc.freeze()


@pytest.fixture(params=["host", pytest.param("gpu", marks=pytest.mark.gpu)])
def xp(request):
    """NumPy, or CuPy."""
    return np if request.param == "host" else pytest.importorskip("cupy")


@pytest.fixture
def eager_threads(monkeypatch):
    """Cut rows into pieces for threads where it would not pay, so that small tests do it."""
    from internals import divide_among_threads

    divide_among_threads(monkeypatch, 1 << 16, 2)


@pytest.fixture(scope="module")
def short_segments():
    """Divide rows of CuPy arrays into segments of 3 steps, which join as chunks do."""
    from internals import divide_into_segments

    with pytest.MonkeyPatch.context() as patch:
        divide_into_segments(patch, 3)
        yield


@pytest.fixture
def narrow_strips(request, monkeypatch):
    """Divide small grids of CuPy arrays into several strips."""
    if not request.node.get_closest_marker("gpu"):
        yield
        return
    from cuda_on_host import forget_launches
    from internals import divide_into_strips

    divide_into_strips(monkeypatch)
    forget_launches()
    yield
    forget_launches()
