-- prune_facts: the time now, and whether a relay ever read the outbox. clock
select longshore.clock($1) as now,
       exists (select from longshore.fact f where f.name = 'relay') as has_relay
