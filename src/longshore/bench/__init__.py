"""Measures an engine end to end: real producer and worker processes, durable commits."""
