"""What mgrec adds to a Dask cluster: :func:`colocate`, :func:`persist_in_stages`."""

from .placement.dask_stages import colocate, persist_in_stages

__all__ = ["colocate", "persist_in_stages"]
