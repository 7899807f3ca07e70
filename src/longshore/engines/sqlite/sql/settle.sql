-- settle: end claims in any other way. A claim that is no longer this session's matches no row,
-- which is the fence. The line of parameters is repeated once per claim.
-- handle, delivery, state, run_at, charge, crash, lapse, started_at, finished_at, failure,
-- reason; at the end: token
-- The plus signs keep the planner from the index on token: it must go claim by claim.
update longshore_job as j
   set state            = s.column3,
       run_at           = coalesce(s.column4, j.run_at),
       attempt          = j.attempt + (s.column8 is not null and j.started_at is null),
       failures         = j.failures + s.column5,
       crashes          = j.crashes + s.column6,
       lapses           = j.lapses + s.column7,
       started_at       = coalesce(s.column8, j.started_at),
       finished_at      = s.column9,
       failure          = coalesce(s.column10, j.failure),
       reason           = s.column11,
       cancel_requested = 0
  from (values
    (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
       ) as s
 where j.seq = s.column1
   and j.delivery = s.column2
   and +j.token = ?
   and +j.state = 'running'
