-- lane_put: of these ready jobs, let those of fair queues be in their lanes.
-- :seqs  JSON array
update longshore_ready
   set lane = (select j.tenant from longshore_job j where j.seq = longshore_ready.seq)
 where (queue, type, rank, seq) in (
       select j.queue, j.type, j.rank, j.seq
         from json_each(:seqs) s
        cross join longshore_job j on j.seq = s.value
        cross join longshore_flow f on f.queue = j.queue
        where f.settings ->> 'order' = 'fair')
