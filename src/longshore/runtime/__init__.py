"""The small impure parts that everyone shares: time, ids, loops, statements."""
