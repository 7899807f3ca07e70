-- settle: end claims in any other way. A claim that is no longer this session's matches no row,
-- which is the fence. The line of parameters is repeated once per claim.
-- handle, delivery, state, run_at, charge, crash, lapse, started_at, finished_at, failure,
-- reason; at the end: token
-- The plus signs keep the planner from the index on token: it must go claim by claim.
update longshore_job as j
   set state            = s.column3,
       run_at           = coalesce(nullif(s.column4, -1), j.run_at),
       attempt          = j.attempt + (s.column8 <> -1 and j.started_at is null),
       failures         = j.failures + s.column5,
       crashes          = j.crashes + s.column6,
       lapses           = j.lapses + s.column7,
       started_at       = coalesce(nullif(s.column8, -1), j.started_at),
       finished_at      = nullif(s.column9, -1),
       failure          = coalesce(nullif(s.column10, -1), j.failure),
       reason           = nullif(s.column11, -1),
       cancel_requested = 0
  from (values
    (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
       ) as s
 where j.seq = s.column1
   and j.delivery = s.column2
   and +j.token = ?
   and +j.state = 'running'
