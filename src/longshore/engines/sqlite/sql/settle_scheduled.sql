-- settle_scheduled: claims that end with the job waiting for a later time.
-- :token :seqs  JSON array
-- Runs before let_go.
insert into longshore_scheduled
    (seq, queue, run_at, delivery, attempt, failures, crashes, lapses, started_at)
select j.seq, j.queue, h.run_at, h.delivery, h.attempt, h.failures, h.crashes, h.lapses,
       h.started_at
  from json_each(:seqs) s
 cross join longshore_held h on h.token = :token and h.seq = s.value
 cross join longshore_job j on j.seq = h.seq
