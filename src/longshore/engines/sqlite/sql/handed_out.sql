-- handed_out: the jobs of an exchange that are still held, with their place in the queue, when
-- they were due, and what became of their earlier deliveries.
-- :token :number
select json_group_array(json_array(
           j.queue, coalesce(h.place, 0), j.rank, j.seq, h.run_at, json_array(
               h.delivery, h.attempt - (h.started_at is not null), h.failures, h.crashes,
               h.lapses)))
  from longshore_held h cross join longshore_job j on j.seq = h.seq
 where h.token = :token and h.claimed_by = :number
