-- start: record that handlers have begun; each start counts once.
-- The line of parameters is repeated once per claim.
-- handle, delivery, now; at the end: token
-- The plus signs keep the planner from the index on token: it must go claim by claim.
update longshore_job as j
   set started_at = s.column3, attempt = j.attempt + 1
  from (values
    (?, ?, ?)
       ) as s
 where j.seq = s.column1
   and j.delivery = s.column2
   and +j.token = ?
   and +j.state = 'running'
   and j.started_at is null
