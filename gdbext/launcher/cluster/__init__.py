"""A Dask cluster: questions to its processes, and the page of the answers."""
