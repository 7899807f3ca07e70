-- start: record that handlers have begun; each start counts once.
-- The line of parameters is repeated once per claim.
-- handle, delivery, now; at the end: token
update longshore_held as h
   set started_at = s.column3, attempt = h.attempt + 1
  from (values
    (?, ?, ?)
       ) as s
 where h.token = ?
   and h.seq = s.column1
   and h.delivery = s.column2
   and h.started_at is null
