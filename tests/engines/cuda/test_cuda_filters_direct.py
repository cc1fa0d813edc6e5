"""Direct form I against the transposed form and SciPy, on a machine without a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_on_host import HostCompiler
from scipy import signal

from mgrec.engines.cuda.compilation import kernel_text
from mgrec.filters.cascade import Cascade
from mgrec.filters.cuda.phases import choose_layout
from mgrec.filters.cuda.program import coefficients, direct_coefficients, gains, is_direct

FILTERS = {
    "8 sections": np.array([[1, 0.5, 0.1, 1, -0.5, 0.2]] * 8),
    "low-pass": signal.butter(8, 0.2, output="sos"),
    "high-pass": signal.butter(5, 0.3, "high", output="sos"),
    "gains of both signs": signal.ellip(6, 1, 60, 0.4, output="sos") * [-3, -3, -3, 1, 1, 1],
}
SINGLE, DOUBLE = np.dtype("f4"), np.dtype("f8")
PROGRAM = """
extern "C" __global__ void form_kernel(
    const Coefficients with, const double* entry, const double* x, double* y, double* exit,
    long long steps, long long switched) {
  Form<DIRECT> form = {};
  State state, added = {};
  for (int q = 0; q < STATES; ++q) {
    state.v[q] = entry[q];
    if (DIRECT) added.v[q] = form.scaled(with, q, entry[q]);
  }
  form.set_state(with, state);
  for (long long n = 0; n < steps; ++n)
    y[n] = n < switched ? form.advance(with, x[n], added) : form.advance(with, x[n]);
  state = form.states(with);
  for (int q = 0; q < STATES; ++q) exit[q] = state.v[q];
}
"""


def filtered(on_host: HostCompiler, sos: Any, x: Any, carry_in: Any, switched: int) -> Any:
    """Outputs and last states by the kernels' own functions."""
    cascade = Cascade.of_sections(sos)
    layout = choose_layout(cascade, (1, 1000, 1), SINGLE, (True, True))
    assert layout.direct
    text = layout.print(True, False) + kernel_text("filters/cuda/form") + PROGRAM
    y, carry_out = np.empty_like(x), np.empty(cascade.states)
    given = (coefficients(cascade, layout), carry_in, x, y, carry_out)
    on_host(text, "form_kernel")(1, 1, (*given, np.int64(x.size), np.int64(switched)), 0)
    return y, carry_out


@pytest.mark.parametrize("switched", [2, 33])
@pytest.mark.parametrize("name", FILTERS)
def test_outputs_and_states_are_scipys(on_host: HostCompiler, name: str, switched: int) -> None:
    sos, rng = FILTERS[name], np.random.default_rng(1)
    x, carry_in = rng.standard_normal(300), rng.standard_normal((len(sos), 2))
    y, carry_out = filtered(on_host, sos, x, carry_in.ravel(), switched)
    wanted, states = signal.sosfilt(sos, x, zi=carry_in)
    np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())
    np.testing.assert_allclose(carry_out, states.ravel(), rtol=0, atol=1e-12 * np.abs(states).max())


@pytest.mark.parametrize("name", FILTERS)
def test_gains_and_ratios_make_up_the_sections(name: str) -> None:
    cascade = Cascade.of_sections(FILTERS[name])
    ratios, _ = direct_coefficients(cascade)
    gain = gains(cascade)
    ratios[:, 0] = 1
    np.testing.assert_allclose(
        ratios * (gain[:-1] / gain[1:])[:, None], cascade.float64_coefficients[0], rtol=1e-14
    )


@pytest.mark.parametrize(
    ("sos", "steps", "dtype"),
    [
        (FILTERS["low-pass"], 63, SINGLE),
        (FILTERS["low-pass"], 1000, DOUBLE),
        (FILTERS["low-pass"][:1], 1000, SINGLE),
        ([[1, 2, 1, 1, 0.5, 0], [0, 1, 0, 1, 0.5, 0]], 1000, SINGLE),
        ([[1e-200, 2, 1, 1, 0.5, 0], [1e-200, 1, 0, 1, 0.5, 0]], 1000, SINGLE),
        ([[1, np.nan, 1, 1, 0.5, 0], [1, 1, 0, 1, 0.5, 0]], 1000, SINGLE),
        (np.tile(FILTERS["8 sections"], (3, 1)), 1000, SINGLE),
    ],
    ids=["few steps", "float64", "one", "b_0 = 0", "tiny gains", "nan", "many"],
)
def test_other_filters_are_walked_in_the_transposed_form(sos: Any, steps: int, dtype: Any) -> None:
    cascade = Cascade.of_sections(np.asarray(sos, float))
    assert not is_direct(cascade, steps, dtype, DOUBLE)
