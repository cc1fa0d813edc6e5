"""A Dask cluster: every chunk stays where it is, a few scalars a chunk cross."""
