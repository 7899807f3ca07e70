-- settle_succeeded: end claims in success. A claim that is no longer this session's matches no
-- row, which is the fence. The line of parameters is repeated once per claim.
-- handle, delivery, started_at, finished_at, result; at the end: token
-- The plus signs keep the planner from the index on token: it must go claim by claim.
update longshore_job as j
   set state            = 'succeeded',
       attempt          = j.attempt + (j.started_at is null),
       started_at       = nullif(s.column3, -1),
       finished_at      = s.column4,
       result           = nullif(s.column5, -1),
       reason           = null,
       cancel_requested = 0
  from (values
    (?, ?, ?, ?, ?)
       ) as s
 where j.seq = s.column1
   and j.delivery = s.column2
   and +j.token = ?
   and +j.state = 'running'
