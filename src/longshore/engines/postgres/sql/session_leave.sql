-- session_leave: end a live lease under which nothing is held, and forget the session, in one call;
-- nothing when it holds something or has lapsed. token, clock
with ended as (
    delete from longshore.session s using (select longshore.clock($2) as now) t
     where s.token = $1 and s.expires_at > t.now
       and not exists (select from longshore.claim c where c.token = $1)
    returning s.token
),   journal as (delete from longshore.journal where token in (select token from ended)),
     exchanged as (delete from longshore.exchanged where token in (select token from ended)),
     waiting as (delete from longshore.waiting where token in (select token from ended)),
     request as (delete from longshore.request where token in (select token from ended))
select longshore.leave_running(token) from ended
