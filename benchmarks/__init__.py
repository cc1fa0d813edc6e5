"""Studies of mgrec's speed, one module each: ``python -m benchmarks.cpu.filters`` from the root."""
