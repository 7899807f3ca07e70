-- settle_ready: claims that end with the job ready again, where it stood before.
-- :token :seqs  JSON array
-- Runs before let_go.
insert into longshore_ready
    (queue, type, rank, seq, size, run_at, delivery, attempt, failures, crashes, lapses,
     started_at)
select j.queue, j.type, j.rank, j.seq, length(j.payload), h.run_at, h.delivery, h.attempt,
       h.failures, h.crashes, h.lapses, h.started_at
  from json_each(:seqs) s
 cross join longshore_held h on h.token = :token and h.seq = s.value
 cross join longshore_job j on j.seq = h.seq
