"""A Dask cluster: asking its processes, and the page of what was found."""
