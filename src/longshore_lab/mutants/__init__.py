"""Mutation testing of the engines' SQL: take each condition out, and see a test fail.

    python -m longshore_lab.mutants --engine sqlite
    python -m longshore_lab.mutants --engine postgres --verb promote --json

A mutant is one statement with one condition less. The contract suite runs on it until the first
failure. A mutant on which every test passes has survived: either a test is missing, or the
condition changes nothing that a caller can see, and `accepted.toml` says why.
"""
