"""The HTTP service: one table of routes over the engine contract, as an ASGI application."""
