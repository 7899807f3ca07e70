-- claimed: the jobs that an exchange handed out and that are still held, in the given order:
-- ids, payloads, and the rest as one JSON text.
-- One row for all jobs: see writer.py. Blobs are strung together, to be cut up by their
-- lengths: as hex among the JSON they cost 2 µs a job more.
-- :token :number :seqs  JSON array
select cast(group_concat(j.id, '') as blob), cast(group_concat(j.payload, '') as blob),
       json_group_array(json_array(
           j.seq, h.delivery, j.type, j.queue, j.tenant, length(j.payload), j.priority,
           h.attempt - (h.started_at is not null), h.failures, h.crashes, h.lapses,
           j.max_attempts, j.timeout, j.created_at, h.run_at, j.trace, j.tags))
  from json_each(:seqs) s
 cross join longshore_held h on h.token = :token and h.seq = s.value
 cross join longshore_job j on j.seq = h.seq
 where h.claimed_by = :number
