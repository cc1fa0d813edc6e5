"""What functions read from modules and closures, as far as their bytecode tells it."""

import os.path
from types import ModuleType

import numpy as np
import pytest

from mgrec.core.algebra.fingerprint import fingerprint
from mgrec.core.algebra.reads import library_name, read_values

pytestmark = pytest.mark.quick


def module_of(name, **values):
    module = ModuleType(name)
    vars(module).update(values)
    return module


def gain(x):
    return x * cfg.K


cfg = module_of("cfg", K=2.0, gain=gain, inner=module_of("cfg.inner", L=1.0))


class Settings:
    K = 2.0


def paths(function):
    return [".".join(read.path) for read in read_values(function)]


def aliased():
    same = cfg
    return lambda x: x * same.K


def nested(x):
    return [(lambda y: y * cfg.K)(x) for _ in range(2)]


def shadowed(x):
    def inner(cfg):
        return cfg.K

    return inner(x)


def test_names_and_the_attributes_of_modules():
    assert paths(lambda x: x * cfg.K) == ["cfg.K"]
    assert paths(lambda x: x * cfg.inner.L + cfg.inner.L) == ["cfg.inner.L"]
    assert paths(lambda x: x * Settings.K) == ["Settings.K"]
    assert paths(aliased()) == ["same.K"]
    assert paths(nested) == ["cfg.K"]
    assert paths(shadowed) == []
    assert paths(lambda x: np.linalg.norm(np.pi * abs(x))) == ["np"]
    table = np.ones(3)
    assert paths(lambda x: x * table.size) == ["table"]


def test_values_and_code_of_modules_and_classes_count(monkeypatch):
    functions = [
        lambda x: x * cfg.K,
        aliased(),
        nested,
        lambda x: cfg.gain(x),
        lambda x: gain(x),
        lambda x: (lambda: gain(x))(),
        lambda x, f=gain: f(x),
    ]
    for owner, name, value, readers in (
        (cfg, "K", 3.0, functions),
        (cfg, "gain", lambda x: x + cfg.K, [lambda x: cfg.gain(x)]),
        (cfg.inner, "L", 3.0, [lambda x: x * cfg.inner.L]),
        (Settings, "K", 3.0, [lambda x: x * Settings.K]),
    ):
        before = [*map(fingerprint, readers)]
        with monkeypatch.context() as changed:
            changed.setattr(owner, name, value)
            for function, earlier in zip(readers, before, strict=True):
                assert fingerprint(function) != earlier
        assert [*map(fingerprint, readers)] == before


def stored(x):
    same = cfg
    return same.K * x


def imported(x):
    from math import pi

    return pi * x


def early():
    function = lambda x: x * later  # noqa: E731
    yield function
    later = 2.0


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (stored, "got <module 'cfg'>.*write module.name where the value is read"),
        (lambda x: getattr(cfg, "K") * x, "got <module 'cfg'>"),  # noqa: B009
        (lambda x, m=cfg: m.K * x, "got <module 'cfg'>"),
        (lambda x: (x, cfg)[1].K, "got <module 'cfg'>"),
        (lambda x: Settings(x), "got <class .*Settings'>"),
        (lambda x: os.path.getsize("file") * x, "got"),
        (lambda x: globals()["cfg"].K * x, "got globals: import outside"),
        (imported, "got an import of math: import outside"),
        (lambda x: missing * x, "got missing, which is not defined yet"),  # noqa: F821
        (next(early()), "got later, which is not defined yet"),
        (lambda x: cfg.missing * x, r"got cfg\.missing, which is not defined yet"),
    ],
)
def test_what_the_bytecode_does_not_tell_is_refused(function, words):
    with pytest.raises(TypeError, match=words):
        fingerprint(function)


def test_libraries_go_by_name():
    assert library_name(np) == "numpy"
    assert library_name(np.where) == "numpy:where"
    assert library_name(np.sin) == "numpy:sin"
    assert library_name(float) == "builtins:float"
    assert library_name(cfg) is None
    assert library_name(gain) is None
    assert library_name(np.frompyfunc(gain, 1, 1)) is None
