-- flows: what holds for queues.
select queue, settings from longshore_flow
