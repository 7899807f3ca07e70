"""What API, command line, SDK and workers do with an engine, written once."""
