"""Work that is shared: tasks for worker processes, a Dask cluster or any executor."""
