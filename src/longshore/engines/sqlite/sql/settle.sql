-- settle: what claims that end in any other way leave behind. A claim that is no longer this
-- session's matches no row, which is the fence. The line of parameters is repeated once per
-- claim.
-- handle, delivery, run_at, charge, crash, lapse, started_at; at the end: token
-- Runs before settled_history, which runs before the job goes where it goes.
update longshore_held as h
   set run_at     = coalesce(nullif(s.column3, -1), h.run_at),
       attempt    = h.attempt + (s.column7 <> -1 and h.started_at is null),
       failures   = h.failures + s.column4,
       crashes    = h.crashes + s.column5,
       lapses     = h.lapses + s.column6,
       started_at = coalesce(nullif(s.column7, -1), h.started_at)
  from (values
    (?, ?, ?, ?, ?, ?, ?)
       ) as s
 where h.token = ?
   and h.seq = s.column1
   and h.delivery = s.column2
