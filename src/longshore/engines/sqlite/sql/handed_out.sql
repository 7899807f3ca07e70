-- handed_out: the jobs of an exchange that are still held, as [queue, rank, seq].
-- :token :number
select json_group_array(json_array(j.queue, j.rank, j.seq))
  from longshore_held h cross join longshore_job j on j.seq = h.seq
 where h.token = :token and h.claimed_by = :number
