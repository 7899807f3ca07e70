-- ready_add_fair: ready_add where some of the queues are fair.
-- :after  the newest job before them
insert into longshore_ready
    (queue, type, rank, seq, size, run_at, delivery, attempt, failures, crashes, lapses, lane)
select j.queue, j.type, j.rank, j.seq, length(j.payload), j.created_at, 0, 0, 0, 0, 0,
       case when f.settings ->> 'order' = 'fair' then j.tenant else '' end
  from longshore_job j left join longshore_flow f on f.queue = j.queue
 where j.seq > :after and j.due is null and j.ordering_key is null
