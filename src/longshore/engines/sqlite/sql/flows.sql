-- flows: what holds for queues, how many of their jobs run, what is left of their rates, and
-- how far those are that are fair.
select queue, settings, running, empty_at, vtime from longshore_flow
