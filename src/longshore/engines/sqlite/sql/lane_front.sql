-- lane_front: the beginning of a statement that goes on with lane_claimable and claimable_end:
-- the first jobs of a lane, as one JSON text.
select json_group_array(json_array(
           seq, type, rank, size, run_at, delivery + 1, attempt, failures, crashes, lapses))
  from
