-- unwanted: held claims whose jobs someone asked to cancel.
-- :token
-- reads longshore_job_unwanted.
select json_group_array(json_array(seq, delivery))
  from longshore_job indexed by longshore_job_unwanted
 where token = :token and state = 'running' and cancel_requested = 1
