"""The CUDA backend against its peers and the floor of memory traffic."""
