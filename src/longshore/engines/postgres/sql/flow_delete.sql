-- flow_delete: let nothing hold for a queue. queue
delete from longshore.flow where queue = $1
