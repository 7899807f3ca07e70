"""What a job is and what may happen to it.

Nothing in this package does I/O, reads a clock or draws a random number.
Every rule of the queue that can be stated without a store is stated here, once.
msgspec is the one third-party import: its structs and codecs are pure computation.
"""
