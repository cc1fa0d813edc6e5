"""Compiled code on disk: found again, checked before it is loaded, not missed without a disk."""

import json
import logging
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numba.core.bytecode import FunctionIdentity

import mgrec
from mgrec.engines import code_on_disk
from mgrec.engines.code_on_disk import CodeFolder
from mgrec.engines.cpu import kernel_cache
from mgrec.engines.cpu.compilation import compile_kernel
from mgrec.engines.cpu.kernel_cache import IN_MEMORY, StepCache
from mgrec.engines.cuda import compilation as cuda_compilation

VARIABLE = "SOME_CACHE_DIR"
DAMAGES = {
    "empty": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "one bit": lambda content: content[:-3] + bytes([content[-3] ^ 4]) + content[-2:],
    "one bit of the checksum": lambda content: bytes([content[0] ^ 128]) + content[1:],
    "garbage": lambda content: os.urandom(len(content)),
    "shifted": lambda content: content[1:],
    "longer": lambda content: content + b"\0",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(code_on_disk, "_reasons", {})
    return CodeFolder(tmp_path / "shared", VARIABLE)


def test_stored_code_is_loaded(folder):
    assert folder.load("one", "key") is None
    folder.store("one", "key", b"code")
    assert folder.load("one", "key") == b"code"
    assert [path.name for path in folder.path.iterdir()] == ["one"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_code_is_missing_until_it_is_stored_again(folder, damage):
    folder.store("one", "key", b"code" * 99)
    path = folder.path / "one"
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    assert folder.load("one", "key") is None
    folder.store("one", "key", b"code" * 99)
    assert folder.load("one", "key") == b"code" * 99


def test_code_of_another_key_is_missing(folder):
    folder.store("one", "key", b"code")
    folder.store("other", "other key", b"other code")
    os.replace(folder.path / "other", folder.path / "one")
    assert folder.load("one", "key") is None


def test_only_this_user_may_write_the_folder_and_its_files(folder):
    mask = os.umask(0)
    try:
        folder.store("one", "key", b"code")
    finally:
        os.umask(mask)
    modes = [path.stat().st_mode & 0o777 for path in (folder.path, folder.path / "one")]
    assert modes == [0o700, 0o600]
    folder.path.parent.chmod(0o777)
    assert folder.load("one", "key") == b"code"


@pytest.mark.parametrize("owner", ["another user", "a writable group"])
def test_a_folder_of_others_is_not_used_and_that_is_said_once(folder, owner, monkeypatch, caplog):
    folder.store("one", "key", b"code")
    if owner == "another user":
        monkeypatch.setattr(code_on_disk.os, "geteuid", lambda: os.getuid() + 1)
    else:
        folder.path.chmod(0o770)
    with caplog.at_level(logging.WARNING, "mgrec"):
        assert folder.load("one", "key") is None
        folder.store("other", "key", b"code")
    assert [path.name for path in folder.path.iterdir()] == ["one"]
    assert len(caplog.messages) == 1
    assert f"Remove it, or set {VARIABLE} to a folder of yours" in caplog.text


def test_a_file_that_others_may_write_is_not_loaded(folder):
    folder.store("one", "key", b"code")
    (folder.path / "one").chmod(0o666)
    assert folder.load("one", "key") is None


def test_a_pipe_in_place_of_a_file_is_missing_code(folder):
    folder.store("one", "key", b"code")
    (folder.path / "one").unlink()
    os.mkfifo(folder.path / "one", 0o600)
    assert folder.load("one", "key") is None
    folder.store("one", "key", b"code")
    assert folder.load("one", "key") == b"code"


def test_a_link_to_a_folder_is_not_followed(folder, tmp_path):
    folder.store("one", "key", b"code")
    folder.path.rename(tmp_path / "elsewhere")
    folder.path.symlink_to(tmp_path / "elsewhere")
    assert folder.load("one", "key") is None


def test_a_folder_that_cannot_be_written_is_said_once(folder, caplog):
    folder.path.parent.write_text("")
    with caplog.at_level(logging.INFO, "mgrec"):
        folder.store("one", "key", b"code")
        folder.store("other", "key", b"code")
    assert folder.load("one", "key") is None
    assert len(caplog.messages) == 1
    assert f"set {VARIABLE} to a folder that can be written" in caplog.text


def test_a_full_disk_keeps_no_part_of_a_file(folder, monkeypatch):
    def fail(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(code_on_disk.os, "replace", fail)
    folder.store("one", "key", b"code")
    assert list(folder.path.iterdir()) == []


# --- functions that numba compiles: found again by what they compute ----------------------------

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
print(json.dumps([w.tolist(), len(started), "numba.np.npyimpl" in sys.modules]))
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


OF_A_MODULE = """
import json
import numpy as np, mgrec, cfg

kept = mgrec.TransferMap(
    lift=lambda x: (cfg.gain(x) * cfg.K,),
    compose=lambda earlier, later: (earlier[0] + later[0],),
    apply=lambda step, w: step[0] + w,
    identity=(0.0,),
)
print(json.dumps(mgrec.scan(kept, np.ones(1), initial=0.0)[0]))
"""

WITHOUT_A_FOLDER = """
import json, logging
logging.basicConfig(level=logging.INFO)
import numpy as np, mgrec

solved = [mgrec.scan(mgrec.maps.max_plus, np.ones(3, kind), 0, initial=0) for kind in ("f8", "f4")]
print(json.dumps([w.tolist() for w in solved]))
"""


def run(folder, *arguments, script=SCRIPT, **environment):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), **environment}
    command = [sys.executable, "-c", script, *arguments]
    out = subprocess.run(command, env=environment, cwd=folder, capture_output=True, check=True, text=True)
    return json.loads(out.stdout)


def copy_package(folder):
    """Another installation of the same code, written at another time."""
    package, ignored = Path(mgrec.__file__).parent, shutil.ignore_patterns("__pycache__")
    shutil.copytree(package, folder / "mgrec", ignore=ignored, copy_function=shutil.copyfile)


@pytest.mark.slow
def test_another_process_and_installation_find_compiled_code_on_disk(tmp_path):
    first, compiled, has_implementations = run(tmp_path, "0.5")
    assert first == [1.0, 0.5, 2.5]
    assert compiled > 0
    assert has_implementations  # numba's, of the functions that it compiles
    copy_package(tmp_path)
    again, compiled, has_implementations = run(tmp_path, "0.5")  # imports from its folder first
    assert again == first
    assert compiled == 0
    assert not has_implementations


@pytest.mark.extended
@pytest.mark.slow
def test_code_of_two_processes_keeps_apart_in_a_third(tmp_path):
    for argument in ("0.5", "0.75"):
        run(tmp_path, argument, script=OF_ONE_NAME)
    assert run(tmp_path, "0.5", "0.75", script=OF_ONE_NAME) == [2.0, 4.0]


@pytest.mark.slow
@pytest.mark.extended
def test_functions_of_a_module_that_nobody_can_import_are_found_again(tmp_path):
    assert [run(tmp_path, script=OF_NO_MODULE) for _ in range(2)] == [633.0, 633.0]


def test_processes_that_compile_at_once_do_not_take_each_others_code(tmp_path, monkeypatch):
    def kernel(x):
        return x

    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    one, other = (StepCache(kernel, key)._cache_file for key in ("one", "other"))
    one.save(("signature", "one"), "code of one")
    other.save(("signature", "other"), "code of the other")
    assert len(list(tmp_path.rglob("*.nbc"))) == 2
    assert one.load(("signature", "one")) == "code of one"
    assert other.load(("signature", "other")) == "code of the other"


@pytest.mark.extended
@pytest.mark.slow
def test_another_value_or_function_of_a_module_is_other_code(tmp_path):
    found = []
    for number, (value, factor) in enumerate([(2.0, 3.0), (5.0, 7.0)]):
        text = f"import numba\nK = {value}\n@numba.njit\ndef gain(x): return x * {factor}\n"
        (tmp_path / "cfg.py").write_text(text)
        os.utime(tmp_path / "cfg.py", (number, number))
        path = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))
        found.append(run(tmp_path, script=OF_A_MODULE, PYTHONPATH=path))
    assert found == [6.0, 35.0]


@pytest.mark.extended
@pytest.mark.slow
def test_where_no_folder_can_be_written_everything_computes(tmp_path):
    # Files in place of folders stop root, too, whom permissions do not.
    copy_package(tmp_path)
    for folder in [tmp_path / "mgrec", *(tmp_path / "mgrec").rglob("*/")]:
        (folder / "__pycache__").write_text("")
    nowhere = str(tmp_path / "mgrec" / "__pycache__" / "home")
    environment = {**os.environ, "HOME": nowhere, "XDG_CACHE_HOME": nowhere}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-B", "-c", WITHOUT_A_FOLDER]
    out = subprocess.run(
        command,
        env={**environment, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert out.returncode == 0, out.stderr
    assert json.loads(out.stdout) == [[1.0, 2.0, 3.0]] * 2
    assert out.stderr.count("set NUMBA_CACHE_DIR to a folder that can be written") == 1


def doubled(x):
    x[0] *= 2


def double(kernel):
    x = np.ones(1)
    kernel(x)
    return x[0]


def test_a_folder_that_becomes_unwritable_does_no_harm(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(code_on_disk, "_reasons", {})
    kernels = [compile_kernel(doubled, key) for key in ("one", "other")]
    shutil.rmtree(tmp_path / "kept")
    (tmp_path / "kept").write_text("")
    with caplog.at_level(logging.INFO, "mgrec"):
        assert [double(kernel) for kernel in kernels] == [2.0, 2.0]
    assert len(caplog.messages) == 1
    assert "set NUMBA_CACHE_DIR" in caplog.text


def test_what_varies_is_kept_in_memory_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    assert double(compile_kernel(doubled, "one", IN_MEMORY)) == 2.0
    assert list(tmp_path.rglob("*.nb?")) == []
    assert double(compile_kernel(doubled, "one")) == 2.0
    assert len(list(tmp_path.rglob("*.nb?"))) == 1


def test_the_key_changes_with_the_code_of_the_package(tmp_path, monkeypatch):
    assert len(list(kernel_cache.PACKAGE.rglob("*.py"))) > 100
    monkeypatch.setattr(kernel_cache, "PACKAGE", tmp_path)
    keys = set()
    for source in ("x = 1", "x = 2"):
        (tmp_path / "module.py").write_text(source)
        keys.add(kernel_cache._versions.__wrapped__())
    assert len(keys) == 2


class Bomb:
    """An object that cannot be unpickled."""

    def __reduce__(self):
        return pytest.fail, ("a damaged file was unpickled",)


def test_damaged_code_is_neither_unpickled_nor_run_but_compiled_again(tmp_path, monkeypatch):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    assert double(compile_kernel(doubled, "one")) == 2.0
    (path,) = tmp_path.rglob("*.nbc")
    right = path.read_bytes()
    for damaged in (b"", right[:32] + pickle.dumps(Bomb())):
        path.write_bytes(damaged)
        assert double(compile_kernel(doubled, "one")) == 2.0
        assert path.stat().st_size > 1000  # stored again
    monkeypatch.setattr(StepCache, "save_overload", lambda *_: pytest.fail("compiled again"))
    assert double(compile_kernel(doubled, "one")) == 2.0


def test_functions_of_others_are_counted_by_numba():
    """Random numbers are for kernels alone: what a user compiles keeps numba's names."""
    first = FunctionIdentity.from_function(lambda x: x).unique_id
    compile_kernel(lambda x: x + 1)(np.ones(3))
    second = FunctionIdentity.from_function(lambda x: x).unique_id
    assert second == first + 1


# --- CUDA programs ------------------------------------------------------------------------------

PROGRAM = 'extern "C" __global__ void nothing() {}'


@pytest.fixture
def compilations(monkeypatch):
    """Programs that a compiler without a GPU, in place of CuPy's, has compiled."""
    programs = []

    def compile_program(text, *_, **__):
        programs.append(text)
        return f"binary of {text}".encode(), None

    cuda = SimpleNamespace(
        Device=lambda: SimpleNamespace(compute_capability="90"),
        compiler=SimpleNamespace(compile_using_nvrtc=compile_program),
        nvrtc=SimpleNamespace(getVersion=lambda: (13, 0)),
    )
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda, __version__="14"))
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    return programs


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_program_is_compiled_once_and_again_if_its_file_is_damaged(tmp_path, monkeypatch, compilations):
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    expected = b"binary of one"
    assert [cuda_compilation.compile_to_cubin("one") for _ in range(2)] == [expected] * 2
    (path,) = tmp_path.rglob("*.cubin")
    flip_a_bit(path)
    assert [cuda_compilation.compile_to_cubin("one") for _ in range(2)] == [expected] * 2
    assert compilations == ["one"] * 2


def test_other_options_are_another_program(tmp_path, monkeypatch, compilations):
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    cuda_compilation.compile_to_cubin("one")
    cuda_compilation.compile_to_cubin("one", cuda_compilation.UNFUSED)
    assert len(compilations) == 2


def test_a_user_without_a_home_compiles(monkeypatch, compilations):
    def fail(_):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("CUPY_CACHE_DIR", raising=False)
    monkeypatch.setattr(cuda_compilation.Path, "expanduser", fail)
    assert cuda_compilation.compile_to_cubin("one") == b"binary of one"


@pytest.mark.gpu
def test_a_damaged_binary_is_not_loaded(tmp_path, monkeypatch):
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    first = cuda_compilation.compile_to_cubin(PROGRAM)
    (path,) = tmp_path.rglob("*.cubin")
    flip_a_bit(path)
    assert cuda_compilation.compile_to_cubin(PROGRAM) == first
    assert path.read_bytes().endswith(first)
