-- session_open: take a lease, in this era, and note up to which migration the code of the session
-- knows them; and forget the levels of sessions that are gone.
-- worker, queues, types, lease, clock, owner, level
with gone as (
    delete from longshore.session_level
     where token in (select l.token from longshore.session_level l
                      where not exists (select from longshore.session s where s.token = l.token)
                        for update skip locked)
), opened as (
    insert into longshore.session (token, worker, queues, types, lease, owner, opened_at, renewed_at, expires_at)
    select longshore.new_token(), $1, $2, $3, $4, $6, t.now, t.now, t.now + $4
      from (select longshore.clock($5) as now) t
    returning token
), levelled as (
    insert into longshore.session_level (token, level) select token, $7 from opened
)
select token, longshore.this_era() as era from opened
