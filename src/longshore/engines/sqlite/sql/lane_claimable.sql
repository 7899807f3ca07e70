-- lane_claimable: one type's jobs in a lane, in order; joined like claimable.
select seq, type, rank, size, run_at, delivery, attempt, failures, crashes, lapses
  from longshore_ready indexed by longshore_ready_lane
 where queue = ? and lane = ? and lane <> '' and type = ?
