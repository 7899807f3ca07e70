"""Ships events from the outbox to sinks, each with a cursor of its own."""
