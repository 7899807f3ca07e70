-- session_open: take a lease, in this era. worker, queues, types, lease, clock, owner
insert into longshore.session (token, worker, queues, types, lease, owner, opened_at, renewed_at, expires_at)
select nextval('longshore.token_number'), $1, $2, $3, $4, $6, t.now, t.now, t.now + $4
  from (select longshore.clock($5) as now) t
returning token, longshore.current_era() as era
