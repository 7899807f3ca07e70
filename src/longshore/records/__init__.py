"""What the records of a store mean: typed reads and writes, one module per kind.

An engine only stores a record's body and compares versions. Here each body is decoded for
itself, so that one that cannot be does not keep the others from being read; a change is read,
decided and compared until nobody else was in between; and the audit record of a change is
composed. API, command line, SDK, workers and relays share these functions.
"""
