"""What happens, as it happens: one reader of the outbox for all who want to know."""
