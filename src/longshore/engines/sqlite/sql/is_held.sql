-- is_held: whether a claim is still this session's.
-- :handle :delivery :token
select 1 from longshore_job
 where seq = :handle and delivery = :delivery and token = :token and state = 'running'
