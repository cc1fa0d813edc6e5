"""Functions of one step as numba compiles them, and the cache of compiled code on disk."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mgrec
from mgrec.backends.cpu.compilation import _StepCache, compile_step

SCRIPT = """
import json, sys
import numpy as np, mgrec
from numba.core import event

started = []
class Listen(event.Listener):
    def on_start(self, _): started.append(1)
    def on_end(self, _): pass

def make(k):
    return mgrec.TransferMap(
        lift=lambda x: (np.where(x > 0, x, k * x),),
        compose=lambda earlier, later: (earlier[0] + later[0],),
        apply=lambda step, w: step[0] + w,
        identity=(0.0,),
    )

x = np.array([1.0, -1.0, 2.0])
with event.install_listener("numba:compile", Listen()):
    w = mgrec.scan(make(float(sys.argv[1])), x, initial=0.0)
print(json.dumps([w.tolist(), len(started)]))
"""

OF_ONE_NAME = """
import json, sys
import numpy as np, mgrec

def make(k):
    return mgrec.Coefficient(lambda i: k + 0.0 * i)

solved = [mgrec.linear_recurrence(make(float(k)), np.ones(999))[-1] for k in sys.argv[1:]]
print(json.dumps(solved))
"""


OF_NO_MODULE = """
import json
import numpy as np, mgrec

names = {"__name__": "nowhere"}
exec("def twice(i): return 2.0 * i", names)
print(json.dumps(mgrec.linear_recurrence(mgrec.Coefficient(names["twice"]), np.ones(5))[-1]))
"""


def run(folder, *arguments, script=SCRIPT):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", script, *arguments]
    out = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
    return json.loads(out.stdout)


@pytest.mark.slow
def test_a_second_process_finds_compiled_code_on_disk(tmp_path):
    first, compiled = run(tmp_path, "0.5")
    assert first == [1.0, 0.5, 2.5]
    assert compiled > 0
    again, compiled = run(tmp_path, "0.5")
    assert again == first
    assert compiled == 0
    other, compiled = run(tmp_path, "0.25")
    assert other == [1.0, 0.75, 2.75]
    assert compiled > 0


@pytest.mark.slow
def test_code_of_two_processes_keeps_apart_in_a_third(tmp_path):
    for argument in ("0.5", "0.75"):
        run(tmp_path, argument, script=OF_ONE_NAME)
    assert run(tmp_path, "0.5", "0.75", script=OF_ONE_NAME) == [2.0, 4.0]


@pytest.mark.slow
def test_functions_of_a_module_that_nobody_can_import_are_found_again(tmp_path):
    assert [run(tmp_path, script=OF_NO_MODULE) for _ in range(2)] == [633.0, 633.0]


def test_processes_that_compile_at_once_do_not_take_each_others_code(tmp_path, monkeypatch):
    # Both have read the same, empty index before either writes.
    def kernel(x):
        return x

    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    one, other = (_StepCache(kernel, key)._cache_file for key in ("one", "other"))
    for files in (one, other):
        monkeypatch.setattr(files, "_load_index", dict)
    one.save(("signature", "one"), "code of one")
    other.save(("signature", "other"), "code of the other")
    assert len(list(Path(tmp_path).rglob("*.nbc"))) == 2
    monkeypatch.undo()
    assert one.load(("signature", "one")) in (None, "code of one")
    assert other.load(("signature", "other")) == "code of the other"


def halved(x):
    return x / 2


def test_numpy_functions_act_on_scalars():
    where = compile_step(lambda x: np.where(x > 0, x, 0.0))
    assert isinstance(where(1.5), float)
    assert (where(1.5), where(-1.5)) == (1.5, 0.0)
    frexp = compile_step(lambda x: np.frexp(x)[1] + 0.0)
    for x in (0.0, 1.0, -3.0, 1e300, 5e-324):
        assert frexp(x) == np.frexp(x)[1]


def test_functions_call_functions_of_their_module_and_closure():
    def doubled(x):
        return 2 * x

    assert compile_step(lambda x: halved(x) + doubled(x))(3.0) == 7.5


def test_division_by_zero_follows_numpy():
    with np.errstate(all="ignore"):
        assert compile_step(lambda x: 1 / x)(0.0) == np.inf


def test_closures_of_other_values_are_other_recurrences():
    def decaying(rate):
        return mgrec.Coefficient(lambda i: rate)

    t = np.ones(3)
    assert mgrec.linear_recurrence(decaying(0.5), t).tolist() == [1, 1.5, 1.75]
    assert mgrec.linear_recurrence(decaying(0.0), t).tolist() == [1, 1, 1]
    assert mgrec.linear_recurrence(decaying(0.5), t).tolist() == [1, 1.5, 1.75]
