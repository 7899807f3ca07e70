-- claimable: one type's jobs in order. A claim joins one of these per type with union all,
-- and SQLite merges their heads: it steps once per job taken, not once per job there is.
select seq, rank, size, run_at, delivery, attempt, failures, crashes, lapses
  from longshore_ready where queue = ? and type = ?
