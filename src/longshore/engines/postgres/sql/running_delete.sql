-- running_delete: count anew who holds how much of a queue; the caller holds its row in flow.
-- queue
delete from longshore.running where queue = $1
