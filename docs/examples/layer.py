"""
A state-space layer in torch: linear_recurrence
===============================================

Layers of state-space models (S4D, Mamba) run a linear recurrence for each of their states. This
layer has four states with decays of their own, and reads a sequence of 2^20 steps. torch
differentiates :func:`mgrec.linear_recurrence`, so that the layer learns the time constants of the
system that produced its target.

This page is built where torch is installed.
"""

import time

import matplotlib.pyplot as plt
import torch

from mgrec import linear_recurrence

torch.manual_seed(0)
STEPS, STATES = 2**20, 4
x = torch.randn(STEPS)

# %%
# The layer computes the states h, with h_i = a·h_{i-1} + x_i, and their weighted sum. Decays are
# those of time constants in steps, whose logarithms are the parameters.


def layer(log_times, weights, x, recurrence=linear_recurrence):
    decays = torch.exp(-torch.exp(-log_times))
    states = recurrence(decays[:, None], x.expand(STATES, -1))
    return (weights[:, None] * states).sum(0)


true_times = torch.tensor([5.0, 50.0, 500.0, 5000.0])
true_weights = torch.tensor([1.0, -0.5, 0.2, 0.1])
target = layer(true_times.log(), true_weights, x)

# %%
# L-BFGS starts from wrong time constants and equal weights.

log_times = torch.tensor([2.0, 20.0, 200.0, 2000.0]).log().requires_grad_()
weights = torch.full((STATES,), 0.1, requires_grad=True)
optimiser = torch.optim.LBFGS([log_times, weights], max_iter=40, line_search_fn="strong_wolfe")
losses, start = [], time.perf_counter()


def closure():
    optimiser.zero_grad()
    loss = ((layer(log_times, weights, x) - target) ** 2).mean()
    loss.backward()
    losses.append(loss.item())
    return loss


optimiser.step(closure)
seconds = (time.perf_counter() - start) / len(losses)
times = [round(value) for value in log_times.exp().tolist()]
f"{seconds:.2f} s an evaluation with its gradient; time constants {times}; loss {losses[-1]:.1e}"

# %%
# Plain autograd records one operation a step. On the first 1,000 steps its gradients are the same;
# 2^20 steps of it take minutes.


def loop(decays, x):
    state, states = torch.zeros(STATES, 1), []
    for step in x.split(1, dim=1):
        state = decays * state + step
        states.append(state)
    return torch.cat(states, dim=1)


def gradients(recurrence):
    power = (layer(log_times, weights, x[:1000], recurrence) ** 2).mean()
    return torch.cat(torch.autograd.grad(power, (log_times, weights)))


torch.testing.assert_close(gradients(linear_recurrence), gradients(loop), rtol=1e-3, atol=1e-5)

# %%
# The response of the layer to an impulse, before and after:

impulse = torch.zeros(20_000)
impulse[0] = 1
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.5), layout="constrained")
for label, parameters in (
    ("target", (true_times.log(), true_weights)),
    ("layer", (log_times.detach(), weights.detach())),
):
    left.semilogx(1 + torch.arange(20_000), layer(*parameters, impulse), label=label)
left.set(xlabel="step", ylabel="response")
left.legend()
right.semilogy(losses)
right.set(xlabel="evaluation", ylabel="mean squared error")
plt.show()
