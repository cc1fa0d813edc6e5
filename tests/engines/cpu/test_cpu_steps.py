"""Functions of one step as numba compiles them: what they read is frozen with them."""

import gc
import weakref
from types import ModuleType

import numba
import numpy as np
import pytest
from layouts import swapped

import mgrec
from mgrec.core.algebra.fingerprint import StepFunction
from mgrec.engines.cpu import user_functions
from mgrec.engines.cpu.compilation import STEP, compile_kernel
from mgrec.engines.cpu.kernel_cache import IN_MEMORY
from mgrec.engines.cpu.user_functions import compile_step

cfg = ModuleType("cfg")
cfg.K = 2.0
cfg.plain = lambda x: np.where(x > 0, x * cfg.K, 0.0)


def halved(x):
    return x / 2


def called(step):
    """A function that Python can call; a compiled step is for kernels alone."""
    return numba.njit(lambda *values: step(*values), error_model="numpy")


def compiled(function):
    return called(compile_step(function))


def test_numpy_functions_act_on_scalars():
    where = compiled(lambda x: np.where(x > 0, x, 0.0))
    assert isinstance(where(1.5), float)
    assert (where(1.5), where(-1.5)) == (1.5, 0.0)
    frexp = compiled(lambda x: np.frexp(x)[1] + 0.0)
    for x in (0.0, 1.0, -3.0, 1e300, 5e-324):
        assert frexp(x) == np.frexp(x)[1]


def test_division_by_zero_follows_numpy():
    with np.errstate(all="ignore"):
        assert compiled(lambda x: 1 / x)(0.0) == np.inf


def test_closures_of_other_values_are_other_recurrences():
    def decaying(rate):
        return mgrec.Coefficient(lambda i: rate)

    t = np.ones(3)
    assert mgrec.linear_recurrence(decaying(0.5), t).tolist() == [1, 1.5, 1.75]
    assert mgrec.linear_recurrence(decaying(0.0), t).tolist() == [1, 1, 1]
    assert mgrec.linear_recurrence(decaying(0.5), t).tolist() == [1, 1.5, 1.75]


@numba.njit
def gain(x):
    return x * cfg.K


def read_again(x):
    return x * cfg.K


def factorial(n):
    return 1.0 if n <= 1 else n * factorial(n - 1)


@numba.njit
def halvings(n):
    return 0 if n <= 1 else 1 + halvings(n // 2)


def test_values_are_those_of_now(monkeypatch):
    step = compile_step(read_again)
    before = called(step)
    assert before(1.0) == 2.0
    monkeypatch.setattr(cfg, "K", 3.0)
    assert before(np.float32(1)) == 2.0  # compiled now, for another dtype
    assert compiled(read_again)(1.0) == 3.0
    monkeypatch.undo()
    assert compile_step(read_again) is step


def test_what_the_user_has_compiled_is_compiled_with_the_values_of_now(monkeypatch):
    assert gain(1.0) == 2.0
    monkeypatch.setattr(cfg, "K", 3.0)
    assert compiled(lambda x: gain(x))(1.0) == 3.0


@pytest.mark.parametrize("signatures", [None, ["float64(float64)"]], ids=["lazy", "eager"])
def test_vectorized_functions_are_compiled_with_the_values_of_now(monkeypatch, signatures):
    def times(x):
        return x * cfg.K

    monkeypatch.setattr(cfg, "K", 2.0)
    ufunc = numba.vectorize(signatures)(times) if signatures else numba.vectorize(times)
    assert ufunc(1.5) == 3.0
    assert compiled(lambda x: ufunc(x))(1.5) == 3.0
    monkeypatch.setattr(cfg, "K", 4.0)
    assert compiled(lambda x: ufunc(x))(1.5) == 6.0


def test_arrays_are_those_of_now():
    table = np.ones(3)
    step = compiled(lambda i: table[i])
    table[:] = 2
    assert step(1) == 1.0


def nested():
    def doubled(x):
        return 2 * x

    return lambda x: halved(x) + doubled(x)


@pytest.mark.parametrize(
    ("function", "x", "wanted"),
    [
        (nested(), 3.0, 7.5),
        (lambda x: cfg.plain(x), 1.5, 3.0),
        (factorial, 5, 120.0),
        (lambda n: halvings(n), 8, 3),
    ],
)
def test_functions_call_functions_of_closures_and_modules_and_themselves(function, x, wanted):
    assert compiled(function)(x) == wanted


def test_signatures_of_compiled_functions_are_kept():
    narrow = numba.njit("float32(float32)")(lambda x: x * np.float32(1.1))
    assert compiled(lambda x: narrow(x))(1.0) == np.float32(1.1)


def test_what_nobody_holds_is_freed():
    step = user_functions._compile_step.__wrapped__(StepFunction(lambda x: x + 0.125))
    assert called(step)(1.0) == 1.125
    freed = weakref.ref(step)
    del step
    gc.collect()
    assert freed() is None


def test_one_function_object_may_read_another_value(monkeypatch):
    one = mgrec.Coefficient(read_again)
    kept = mgrec.TransferMap(
        lift=lambda x: (x * cfg.K,),
        compose=lambda earlier, later: (earlier[0] + later[0],),
        apply=lambda step, w: step[0] + w,
        identity=(0.0,),
    )
    monkeypatch.setattr(cfg, "K", 3.0)
    again = mgrec.TransferMap(kept.lift, kept.compose, kept.apply, kept.identity)
    assert again != kept
    assert mgrec.Coefficient(read_again).function != one.function
    assert mgrec.scan(again, np.ones(1), initial=0.0) == 3.0
    with pytest.raises(RuntimeError, match="functions of a TransferMap read must stay"):
        mgrec.scan(kept, np.ones(1), initial=0.0)
    monkeypatch.undo()
    assert mgrec.scan(kept, np.ones(1), initial=0.0) == 2.0


def test_kernels_refuse_another_byte_order():
    kernel = compile_kernel(lambda array: array.size)
    with pytest.raises(TypeError, match="arrays in native byte order"):
        kernel(swapped(np.ones(3)))


def test_an_error_of_an_inner_function_has_the_numbers_that_it_reports():
    @numba.njit(**STEP)
    def positive(x):
        if x < 0:
            raise ValueError("negative", x)
        return x

    kernel = compile_kernel(lambda x: positive(x), IN_MEMORY)
    with pytest.raises(ValueError, match=r"'negative', -2\.0"):
        kernel(-2.0)
    assert kernel(3.0) == 3.0
    # The kernel's code contains the function, of which there is no other machine code.
    (compiled,) = positive.overloads.values()
    assert compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name) == 0
