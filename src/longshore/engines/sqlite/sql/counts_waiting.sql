-- counts_waiting: how many jobs are scheduled or parked by queue, up to a limit of each.
-- :limit
select queue, 'scheduled', count(*)
  from (select queue from longshore_scheduled indexed by longshore_scheduled_due limit :limit)
 group by queue
union all
select queue, 'parked', count(*)
  from (select queue from longshore_parked limit :limit)
 group by queue
