-- lane_step: the last of the next ready jobs of a queue, by type and rank: [type, rank, seq]; null
-- behind the last one.
-- :queue :type :rank :seq  where the last step ended, :limit  jobs of a step
select json_array(type, rank, seq)
  from (select type, rank, seq from longshore_ready
         where queue = :queue and (type, rank, seq) > (:type, :rank, :seq)
         order by type, rank, seq limit :limit)
 order by type desc, rank desc, seq desc limit 1
