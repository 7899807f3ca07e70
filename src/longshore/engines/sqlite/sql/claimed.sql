-- claimed: what was submitted, of the jobs that were claimed, in the given order: ids,
-- payloads, and the rest as one JSON text.
-- One row for all jobs: see writer.py. Blobs are strung together, to be cut up by their
-- lengths: as hex among the JSON they cost 2 µs a job more.
-- :seqs  JSON array
select cast(group_concat(j.id, '') as blob), cast(group_concat(j.payload, '') as blob),
       json_group_array(json_array(
           j.seq, j.type, j.queue, j.tenant, length(j.payload), j.priority, j.max_attempts,
           j.timeout, j.created_at, j.trace, j.tags))
  from json_each(:seqs) s cross join longshore_job j on j.seq = s.value
