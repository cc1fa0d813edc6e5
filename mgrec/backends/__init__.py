"""The kernels, by the machine they run on: one package a kind of array."""
