"""The terminal view of a queue: what it shows, how it is drawn, and what its keys do."""
