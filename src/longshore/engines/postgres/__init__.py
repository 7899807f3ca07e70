"""The PostgreSQL engine: one row per span of alike jobs, a few connections per process."""
