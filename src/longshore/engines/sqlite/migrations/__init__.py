"""Migrations of the SQLite engine, in order."""
