-- lane_sort: let the ready jobs of a queue that has become fair be in their lanes.
-- :queue
update longshore_ready
   set lane = (select j.tenant from longshore_job j where j.seq = longshore_ready.seq)
 where queue = :queue and lane = ''
