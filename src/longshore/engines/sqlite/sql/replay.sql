-- replay: make dead or cancelled jobs ready again, as if they had never failed, but for those
-- that stand in a line.
-- :seqs :now
-- Runs before leave_finished.
insert into longshore_ready
    (queue, type, rank, seq, size, run_at, delivery, attempt, failures, crashes, lapses)
select j.queue, j.type, j.rank, j.seq, length(j.payload), :now, f.delivery, f.attempt, 0, 0, 0
  from json_each(:seqs) s
 cross join longshore_finished f on f.seq = s.value
 cross join longshore_job j on j.seq = f.seq
 where j.ordering_key is null
