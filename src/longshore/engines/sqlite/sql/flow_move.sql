-- flow_move: how far a fair queue is.
-- :queue :at
update longshore_flow set vtime = :at where queue = :queue
