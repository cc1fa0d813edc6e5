"""Compiled CUDA programs on disk."""

import sys
from types import SimpleNamespace

import pytest

from mgrec.engines.cuda import compilation

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


def test_a_program_is_compiled_once_and_again_if_its_file_is_damaged(
    tmp_path, monkeypatch, compilations
):
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    expected = b"binary of one"
    assert [compilation.compile_to_cubin("one") for _ in range(2)] == [expected] * 2
    (path,) = tmp_path.rglob("*.cubin")
    flip_a_bit(path)
    assert [compilation.compile_to_cubin("one") for _ in range(2)] == [expected] * 2
    assert compilations == ["one"] * 2


def test_other_options_are_another_program(tmp_path, monkeypatch, compilations):
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    compilation.compile_to_cubin("one")
    compilation.compile_to_cubin("one", compilation.UNFUSED)
    assert len(compilations) == 2


def test_a_user_without_a_home_compiles(monkeypatch, compilations):
    def fail(_):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("CUPY_CACHE_DIR", raising=False)
    monkeypatch.setattr(compilation.Path, "expanduser", fail)
    assert compilation.compile_to_cubin("one") == b"binary of one"


@pytest.mark.gpu
def test_a_damaged_binary_is_not_loaded(tmp_path, monkeypatch):
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    first = compilation.compile_to_cubin(PROGRAM)
    (path,) = tmp_path.rglob("*.cubin")
    flip_a_bit(path)
    assert compilation.compile_to_cubin(PROGRAM) == first
    assert path.read_bytes().endswith(first)
