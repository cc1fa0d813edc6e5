"""Kernels of transfer maps: which of them are kept, on disk and in memory."""

import numpy as np
import pytest
from numba.core import event

import mgrec
from mgrec.core.algebra.fingerprint import MAX_VARIANTS, StepFunction
from mgrec.core.algebra.transfer_map import affine
from mgrec.engines.cpu import user_functions
from mgrec.engines.cpu.kernel_cache import IN_MEMORY
from mgrec.engines.cuda import compilation, tracing
from mgrec.scans.cpu.kernels import functions_of, kernel_of
from mgrec.scans.cuda import program


def adding(amount):
    return mgrec.TransferMap(
        lift=lambda x: (x + amount,),
        compose=lambda earlier, later: (earlier[0] + later[0],),
        apply=lambda step, w: w + step[0],
        identity=(0.0,),
    )


def test_further_maps_of_one_code_stay_in_memory():
    keys = [functions_of(adding(number), ((None, 1),)).key for number in range(MAX_VARIANTS)]
    assert not any(IN_MEMORY in key for key in keys)
    with pytest.warns(UserWarning, match="numbers that change as operands"):
        further = adding(0.5)
    assert IN_MEMORY in functions_of(further, ((None, 1),)).key
    assert IN_MEMORY not in functions_of(adding(0), ((None, 1),)).key


def test_further_coefficients_of_one_code_stay_in_memory():
    def parts(rate):
        return ((StepFunction(lambda i: i * rate), 1), (None, 1))

    keys = [functions_of(affine, parts(number)).key for number in range(MAX_VARIANTS + 1)]
    assert [IN_MEMORY in key for key in keys] == [False] * MAX_VARIANTS + [True]


@pytest.mark.parametrize(
    "held",
    [
        user_functions._compile_step,
        functions_of,
        kernel_of,
        tracing.trace_transfer_map,
        tracing.trace_coefficient,
        program._statements,
        compilation._compile,
    ],
    ids=lambda held: held.__name__,
)
def test_what_is_held_for_maps_is_bounded(held):
    assert 256 <= held.cache_parameters()["maxsize"] <= 1024


@pytest.mark.parametrize(("shape", "axis"), [((9, 70), 1), ((70, 9), 0)])
def test_read_only_states_compile_nothing_again(shape, axis):
    x, initial = np.ones(shape), np.zeros(9)
    wanted = mgrec.scan(mgrec.maps.max_plus, x, x, initial=initial, axis=axis)
    initial.flags.writeable = False
    with event.install_recorder("numba:compile") as compiled:
        result = mgrec.scan(mgrec.maps.max_plus, x, x, initial=initial, axis=axis)
    assert compiled.buffer == []
    np.testing.assert_array_equal(result, wanted)
