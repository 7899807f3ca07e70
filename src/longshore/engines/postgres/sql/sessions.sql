-- Sessions: leases.

-- session_ahead: whether a lease ends further ahead than its length: the clock was set back.
-- clock
select exists (select from longshore.session s, longshore.clock($1) as now
                where s.expires_at > now + s.lease) as is_ahead

-- session_await: wait until no completion of this session is under way. token
select 1 from longshore.session where token = $1 for update

-- session_bury: end a session whose lease ended longer than the grace ago. This is the fence: a
-- call of the session that is under way holds the row, and what it leaves is judged anew.
-- token, clock, grace
delete from longshore.session s using longshore.clock($2) as now
 where s.token = $1 and s.expires_at <= now - $3::bigint
returning now, s.worker

-- session_end: end a live lease; nothing when it has lapsed. token, clock
delete from longshore.session s using (select longshore.clock($2) as now) t
 where s.token = $1 and s.expires_at > t.now
returning t.now

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

-- session_lock: wait until no call of this session is under way. token
select 1 from longshore.session where token = $1 for no key update

-- session_of: what a live session was opened with. token, clock
select s.worker, s.queues, s.types, s.lease from longshore.session s
 where s.token = $1 and s.expires_at > longshore.clock($2)

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

-- session_owner: whom a session was opened for, as long as there is one. token
select s.owner from longshore.session s where s.token = $1

-- session_quiet: ask a worker to drain; no row when there is none. token
update longshore.session set is_quiet = true where token = $1 returning token

-- session_renew: push a live lease's end into the future; and how the session shares its queues
-- with others that are live, who of its jobs was asked to stop, and the numbers of the spans that
-- it holds, as JSON. token, clock
update longshore.session s
   set renewed_at = t.now, expires_at = greatest(s.expires_at, t.now + s.lease)
  from (select longshore.clock($2) as now) t
 where s.token = $1 and s.expires_at > t.now
returning t.now, s.expires_at, s.is_quiet, (select e.number from longshore.era e) as era,
          (select json_agg(json_build_array(r.handle, r.delivery, r.reason) order by r.handle)
             from longshore.request r where r.token = s.token) as requests,
          (select json_agg(json_build_array(c.number, c.part))
             from longshore.claim c where c.token = s.token) as spans,
          (select json_agg(json_build_object('queue', n.name, 'place', n.place, 'of', n.many,
                                             'retry_rate', f.settings -> 'retry_rate',
                                             'max_running', f.settings -> 'max_running',
                                             'rate', f.settings -> 'rate')
                           order by n.name)
             from (select name, count(distinct o.token) as many,
                          count(distinct o.token) filter (where o.token < s.token) as place
                     from longshore.session o, unnest(o.queues) name
                    where o.expires_at > t.now and name = any (s.queues)
                    group by name) n
             left join longshore.flow f on f.queue = n.name) as shares

-- session_shorten: let no lease end later than its full length from now. clock
update longshore.session s set expires_at = now + s.lease from longshore.clock($1) as now
 where s.expires_at > now + s.lease

-- sessions: live leases with what they hold, oldest first. clock
select s.token, s.worker, s.queues, s.types, s.opened_at, s.renewed_at, s.expires_at,
       s.is_quiet,
       coalesce((select sum(c.size) from longshore.claim c where c.token = s.token), 0)
       - (select count(*)
            from (select distinct t.segment, t.ordinal, t.delivery from longshore.told t
                   where t.token = s.token and t.kind >= 1) t
            join longshore.claim c
              on c.token = s.token and c.segment = t.segment and c.delivery = t.delivery
             and t.ordinal >= c.lo and t.ordinal < c.hi and longshore.has(c.mask, t.ordinal)
         ) as holding
  from longshore.session s
 where s.expires_at > longshore.clock($1)
 order by s.token

-- lapsed: sessions whose lease ended longer than the grace ago. clock, grace, limit
select s.token, s.worker from longshore.session s, longshore.clock($1) as now
 where s.expires_at <= now - $2::bigint
 order by s.expires_at, s.token
 limit $3

-- forget_session: what a session that is gone leaves behind. token
with journal as (delete from longshore.journal where token = $1),
     exchanged as (delete from longshore.exchanged where token = $1),
     waiting as (delete from longshore.waiting where token = $1),
     request as (delete from longshore.request where token = $1)
select longshore.leave_running($1)

-- hold_tellers: the sessions that told before this moment how jobs of theirs ended. They stay as
-- they are until the transaction ends; one that is busy is passed over. last moment
select s.token from longshore.session s
 where s.token in (select j.token from longshore.journal j where j.at <= $1)
 order by s.token for share skip locked
