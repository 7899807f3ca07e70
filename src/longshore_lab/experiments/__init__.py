"""The experiments: each asks one question of a real queue, and answers with data.

    python -m longshore_lab.experiments loss --quick

`catalogue` lists them. A module holds one: what it asks, how much of it, and how it is done.
"""
