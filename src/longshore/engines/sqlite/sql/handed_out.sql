-- handed_out: the jobs of an exchange that are still held, as [queue, rank, seq].
-- :token :number
-- reads longshore_job_held.
select json_group_array(json_array(queue, rank, seq))
  from longshore_job indexed by longshore_job_held
 where token = :token and state = 'running' and claimed_by = :number
