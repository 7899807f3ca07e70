"""A whole fleet in one thread, in a time that is not real, in an order that a seed decides.

    python -m longshore_lab.sim --seeds 0:1000

Producers, workers, schedulers, relays and whoever cancels jobs are the product's own code. The
engine is the model, or SQLite with its real SQL. Between the two lies a line that delays, cuts,
doubles and forgets; actors are killed, stopped and cut off, and clocks are set. What they write
down goes to the same checkers that judge real processes. A seed that breaks a promise breaks it
again, as often as it is asked.
"""
