"""A Dask cluster in, what its scheduler and workers used out."""
