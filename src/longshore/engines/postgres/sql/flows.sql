-- flows: the queues of which something is said, and what is left of their rates.
select queue, empty_at from longshore.flow
