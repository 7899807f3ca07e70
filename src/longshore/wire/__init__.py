"""What both ends of HTTP read and write: a service's address, sessions, errors and streams."""
