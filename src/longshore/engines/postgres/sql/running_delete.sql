-- running_delete: count anew who holds how much of a queue, from which nobody claims. queue
delete from longshore.running where queue = $1
