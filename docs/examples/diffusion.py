"""
Calibrate a diffusion in torch: solve_tridiagonal
=================================================

A rod of two materials is heated at one end, and a few thermometers record its temperature. The
conductivities of the materials follow from the recordings: an implicit simulation of 100 steps is
fitted to them. Each step is a tridiagonal system, so that the gradient passes through 100 calls of
:func:`mgrec.solve_tridiagonal`.

This page is built where torch is installed.
"""

import matplotlib.pyplot as plt
import torch

from mgrec import solve_tridiagonal

CELLS, STEPS = 100, 100
DX, DT = 1 / CELLS, 0.01
THERMOMETERS = [10, 30, 50, 70, 90]
left_half = torch.arange(CELLS + 1) < CELLS // 2

# %%
# Heat flows between neighbouring cells. One end of the rod is held at 1, and the other at 0. The
# implicit Euler method solves (1 − Δt·A)·u_{n+1} = u_n + Δt·b in each step, and is stable for any
# Δt.


def simulate(log_conductivities, solve=solve_tridiagonal):
    conductivity = torch.where(left_half, *log_conductivities.exp())
    rate = conductivity * DT / DX**2  # across the faces of cells
    lower, upper = -rate[:-1], -rate[1:]
    diagonal = 1 + rate[:-1] + rate[1:]
    source = torch.zeros(CELLS, dtype=rate.dtype)
    source[0] = 1.0
    source = source * rate[0]
    temperature, history = torch.zeros(CELLS, dtype=rate.dtype), []
    for _ in range(STEPS):
        temperature = solve(lower, diagonal, upper, temperature + source)
        history.append(temperature)
    return torch.stack(history)


truth = torch.tensor([0.3, 0.05], dtype=torch.float64)
torch.manual_seed(0)
exact = simulate(truth.log())
recorded = exact[:, THERMOMETERS] + 0.01 * torch.randn(STEPS, len(THERMOMETERS))

# %%
# L-BFGS minimises the squared error.

parameters = torch.tensor([0.1, 0.1], dtype=torch.float64).log().requires_grad_()
optimiser = torch.optim.LBFGS([parameters], max_iter=12, line_search_fn="strong_wolfe")


def loss_of(solve=solve_tridiagonal):
    return ((simulate(parameters, solve)[:, THERMOMETERS] - recorded) ** 2).mean()


def closure():
    optimiser.zero_grad()
    loss = loss_of()
    loss.backward()
    return loss


optimiser.step(closure)
fitted = parameters.exp().tolist()
f"conductivities {fitted[0]:.3f} and {fitted[1]:.3f}; those of the rod are 0.3 and 0.05"

# %%
# Autograd of dense systems, which solves 100 x 100 matrices, has the same gradient:


def solve_dense(lower, diagonal, upper, b):
    matrix = torch.diag(diagonal) + torch.diag(lower[1:], -1) + torch.diag(upper[:-1], 1)
    return torch.linalg.solve(matrix, b)


with torch.no_grad():
    parameters += 0.5  # where the gradient is not 0
(gradient,) = torch.autograd.grad(loss_of(), parameters)
(dense,) = torch.autograd.grad(loss_of(solve_dense), parameters)
torch.testing.assert_close(gradient, dense, rtol=1e-9, atol=0)

# %%
# The recordings, and the simulation with the fitted conductivities:

with torch.no_grad():
    simulated = simulate(torch.tensor(fitted, dtype=torch.float64).log())
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
time = DT * (1 + torch.arange(STEPS))
for k, cell in enumerate(THERMOMETERS):
    axes.plot(time, recorded[:, k], ".", ms=3, color=f"C{k}")
    axes.plot(time, simulated[:, cell], color=f"C{k}", label=f"x = {cell * DX:.1f}")
axes.set(xlabel="time", ylabel="temperature")
axes.legend(ncols=2)
plt.show()
