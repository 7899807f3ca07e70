"""Keeps the queue in order: promote, reclaim, fire, prune. One verb, one tick, one file.

Every tick is safe in any number of processes at once. A worker runs promote and reclaim too,
so a fleet without a scheduler still retries and recovers.
"""
