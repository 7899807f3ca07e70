"""The process beside a worker: it keeps the lease, and reports the worker's death at once."""
