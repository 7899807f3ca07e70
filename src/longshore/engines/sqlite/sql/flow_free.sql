-- flow_free: jobs of a queue have ended.
-- :queue :jobs
update longshore_flow set running = running - :jobs where queue = :queue
