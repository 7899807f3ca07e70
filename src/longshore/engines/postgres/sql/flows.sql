-- flows: the queues of which something is said.
select queue from longshore.flow
