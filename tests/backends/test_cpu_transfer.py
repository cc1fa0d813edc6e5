"""Kernels of transfer maps: which of them are kept, on disk and in memory."""

import pytest

import mgrec
from mgrec.backends.cpu import affine as affine_kernels
from mgrec.backends.cpu import affine_precompute, steps
from mgrec.backends.cpu.stored import IN_MEMORY
from mgrec.backends.cpu.transfer import fused_lift, transfer_kernels
from mgrec.backends.cuda import compilation, sources, tracing
from mgrec.phases.affine import affine
from mgrec.phases.fingerprint import StepFunction
from mgrec.phases.variants import MOST


def adding(amount):
    return mgrec.TransferMap(
        lift=lambda x: (x + amount,),
        compose=lambda earlier, later: (earlier[0] + later[0],),
        apply=lambda step, w: w + step[0],
        identity=(0.0,),
    )


def test_further_maps_of_one_code_stay_in_memory():
    keys = [fused_lift(adding(number), ((None, 1),)).key for number in range(MOST)]
    assert not any(IN_MEMORY in key for key in keys)
    with pytest.warns(UserWarning, match="numbers that change as operands"):
        further = adding(0.5)
    assert IN_MEMORY in fused_lift(further, ((None, 1),)).key
    assert IN_MEMORY not in fused_lift(adding(0), ((None, 1),)).key


def test_further_coefficients_of_one_code_stay_in_memory():
    def parts(rate):
        return ((StepFunction(lambda i: i * rate), 1), (None, 1))

    keys = [fused_lift(affine, parts(number)).key for number in range(MOST + 1)]
    assert [IN_MEMORY in key for key in keys] == [False] * MOST + [True]


@pytest.mark.parametrize(
    "held",
    [
        steps._compiled, fused_lift, transfer_kernels, affine_kernels.determine_filled,
        affine_precompute.precompute_filled, affine_precompute.precompute_columns,
        affine_precompute.retrack_columns, tracing.trace_transfer_map, tracing.trace_coefficient,
        sources._statements, compilation._compile,
    ],
    ids=lambda held: held.__name__,
)  # fmt: skip
def test_what_is_held_for_maps_is_bounded(held):
    assert 256 <= held.cache_parameters()["maxsize"] <= 1024
