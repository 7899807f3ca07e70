-- flows: what holds for queues, how many of their jobs run, and what is left of their rates.
select queue, settings, running, empty_at from longshore_flow
