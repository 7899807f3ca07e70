-- report: keep how far running jobs say they are. A claim that is no longer this session's
-- matches no row, which is the fence. The line of parameters is repeated once per report.
-- handle, delivery, fraction, message, now; at the end: token
insert into longshore_progress (seq, delivery, fraction, message, at)
select h.seq, h.delivery, s.column3, nullif(s.column4, -1), s.column5
  from (values
    (?, ?, ?, ?, ?)
       ) as s
 cross join longshore_held as h
 where h.token = ?
   and h.seq = s.column1
   and h.delivery = s.column2
    on conflict (seq) do update
   set delivery = excluded.delivery, fraction = excluded.fraction,
       message = excluded.message, at = excluded.at
