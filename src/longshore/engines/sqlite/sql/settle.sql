-- settle: end claims as laid out. A claim that is no longer this session's matches no row,
-- which is the fence.
-- :token
-- returns nothing; the row count says how many were settled. Reads jobs by primary key.
update longshore_job as j
   set state            = s.state,
       run_at           = coalesce(s.run_at, j.run_at),
       attempt          = j.attempt + (s.started_at is not null and j.started_at is null),
       failures         = j.failures + s.charge,
       crashes          = j.crashes + s.crash,
       lapses           = j.lapses + s.lapse,
       started_at       = coalesce(s.started_at, j.started_at),
       finished_at      = s.finished_at,
       cancel_requested = 0,
       result           = s.result,
       failure          = coalesce(s.failure, j.failure),
       reason           = s.reason
  from longshore_settling s
 where j.seq = s.seq
   and j.token = :token
   and j.delivery = s.delivery
   and j.state = 'running'
