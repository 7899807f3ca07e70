"""What `longshore prove` does: load and kills on a store beside the user's, and a count.

`run.prove` is the way in. The store is a scratch one, and everything is removed in the end.
"""
