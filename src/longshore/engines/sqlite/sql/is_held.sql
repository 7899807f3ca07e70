-- is_held: whether a claim is still this session's.
-- :handle :delivery :token
select 1 from longshore_held
 where token = :token and seq = :handle and delivery = :delivery
