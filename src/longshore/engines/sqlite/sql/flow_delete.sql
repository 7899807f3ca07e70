-- flow_delete: let nothing hold for a queue.
-- :queue
delete from longshore_flow where queue = :queue
