-- keys_held: which keys someone holds in an open transaction, by their places from 1.
-- tenants, kinds (once, unique, line), keys, queues (of lines)
-- Nothing is written; each key that is held is waited for a millisecond.
select longshore.keys_held($1, $2, $3, $4)
