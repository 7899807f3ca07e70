-- position_gaps_prune: forget gaps that all events and all consumers have passed.
delete from longshore_position_gap
 where first_position < coalesce((select min(position) from longshore_outbox), first_position + 1)
   and first_position <= coalesce((select min(position) from longshore_consumer), first_position)
