-- flow_get: what holds for a queue.
-- :queue
select settings from longshore_flow where queue = :queue
