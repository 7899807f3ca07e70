-- unwanted: held claims whose jobs someone asked to cancel, and why.
-- :token
-- reads longshore_job_unwanted.
select json_group_array(json_array(seq, delivery, reason))
  from longshore_job indexed by longshore_job_unwanted
 where token = :token and state = 'running' and cancel_requested = 1
