-- lane_sort_step: lane_sort for those between two jobs.
-- :queue :type :rank :seq  without it, :last_type :last_rank :last_seq  with it
update longshore_ready
   set lane = (select j.tenant from longshore_job j where j.seq = longshore_ready.seq)
 where queue = :queue and (type, rank, seq) > (:type, :rank, :seq)
   and (type, rank, seq) <= (:last_type, :last_rank, :last_seq) and lane = ''
