-- Promote: what is due becomes ready.

-- due: the jobs a promote will make ready, as one JSON text.
-- :now :limit
-- reads longshore_scheduled_due.
select json_group_array(json_array(w.seq, hex(j.id), j.queue, j.type, j.tenant,
                                   j.ordering_key, j.trace))
  from (select seq from longshore_scheduled indexed by longshore_scheduled_due
         where run_at <= :now
         order by run_at, seq
         limit :limit) w
 cross join longshore_job j on j.seq = w.seq

-- promote: make scheduled jobs ready, but for those that join a line.
-- :seqs  JSON array, :now  null: ready since the time they waited for
-- Runs before leave_scheduled.
insert into longshore_ready
    (queue, type, rank, seq, size, run_at, delivery, attempt, failures, crashes, lapses,
     started_at)
select j.queue, j.type, j.rank, j.seq, length(j.payload), coalesce(:now, w.run_at),
       w.delivery, w.attempt, w.failures, w.crashes, w.lapses, w.started_at
  from json_each(:seqs) s
 cross join longshore_scheduled w on w.seq = s.value
 cross join longshore_job j on j.seq = w.seq
 where w.delivery > 0 or j.ordering_key is null

-- next_due: when the next scheduled job is due, or the next line opens because of its rate.
select min(at)
  from (select min(run_at) as at from longshore_scheduled indexed by longshore_scheduled_due
        union all
        select min(opens_at) from longshore_line indexed by longshore_line_opens
         where opens_at is not null)

-- joining_again: jobs with ordering keys that were replayed or are due, as one JSON text, in the
-- order of :seqs. Those that wait for a retry have kept their place in their line.
-- :seqs  JSON array, :now  null: ready since the time they waited for
select json_group_array(json_array(j.seq, hex(j.id), j.queue, j.tenant, j.ordering_key,
                                   coalesce(:now, w.run_at), coalesce(f.delivery, 0),
                                   coalesce(f.attempt, 0)))
  from json_each(:seqs) s
 cross join longshore_job j on j.seq = s.value
  left join longshore_scheduled w on w.seq = j.seq
  left join longshore_finished f on f.seq = j.seq
 where j.ordering_key is not null and coalesce(w.delivery, 0) = 0
