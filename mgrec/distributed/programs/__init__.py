"""The three phases over shards: one program for chains, one for halos, one for grids."""
