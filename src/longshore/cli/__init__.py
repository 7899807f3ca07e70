"""The command line. Nothing here is imported before a command needs it."""
