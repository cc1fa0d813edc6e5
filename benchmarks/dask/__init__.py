"""Recurrences over Dask arrays: graphs, stores on disk, clusters."""
