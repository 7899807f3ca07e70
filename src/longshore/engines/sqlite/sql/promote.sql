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
