-- flow_reset: let the rate of a queue be full again. queue
update longshore.flow set empty_at = null where queue = $1
