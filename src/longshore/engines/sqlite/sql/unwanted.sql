-- unwanted: held claims whose jobs someone asked to cancel, and why.
-- :token
-- reads longshore_held_unwanted.
select json_group_array(json_array(seq, delivery, cancel_reason))
  from longshore_held indexed by longshore_held_unwanted
 where token = :token and cancel_reason is not null
