-- Counts: how many jobs there are.

-- counts: jobs by queue and state: how many, not started, and the oldest ready one. One
-- statement, so that a job is counted once while it moves.
with held as materialized (select * from longshore.held)
select r.queue, 'ready' as state, sum(r.size)::bigint as jobs, 0::bigint as buffered,
       min(r.run_at) as oldest
  from longshore.ready r group by r.queue
union all
select r.queue, 'parked', count(*), 0, null from longshore.parked r group by r.queue
union all
select r.queue, 'scheduled', sum(r.size), 0, null from longshore.scheduled r group by r.queue
union all
select h.queue, 'running', h.running, h.buffered, null from held h
union all
select f.queue, f.state, sum(f.jobs)::bigint, 0, null
  from (select t.queue, t.state, t.jobs from longshore.tallied t
        union all
        select h.queue, 'succeeded', h.succeeded from held h) f
 group by f.queue, f.state
union all
select substr(t.name, 8), 'pruned', t.number, 0, null from longshore.total t
 where starts_with(t.name, 'pruned/')

-- counts_bounded: the same as counts, but of what waits only so many spans; `is_over` where there
-- are more, and the oldest is that of the fronts then. One seek per queue, type and rank.
-- most spans of all ready ones and of each other kind, least of each type, first ranks
with recursive held as materialized (
    select * from longshore.held
), pair (queue, type) as (
    (select r.queue, r.type from longshore.ready r order by r.queue, r.type limit 1)
    union all
    select n.queue, n.type from pair p cross join lateral (
           select r.queue, r.type from longshore.ready r
            where (r.queue, r.type) > (p.queue, p.type)
            order by r.queue, r.type limit 1) n
), bound as materialized (
    select greatest($1::bigint / greatest(count(*), 1), $2::bigint) as spans from pair
), front as materialized (
    select p.queue, p.type, f.jobs, f.oldest, f.spans >= b.spans as is_over
      from pair p cross join bound b cross join lateral (
           select count(*) as spans, sum(x.size) as jobs, min(x.run_at) as oldest
             from (select r.size, r.run_at from longshore.ready r
                    where r.queue = p.queue and r.type = p.type
                    order by r.rank limit (select spans from bound)) x) f
), head as (
    select f.queue, f.jobs, f.is_over, least(f.oldest, h.oldest) as oldest
      from front f left join lateral (
           select min(x.run_at) as oldest
             from unnest($3::bigint[]) as k (rank) cross join lateral (
                  select r.run_at from longshore.ready r
                   where r.queue = f.queue and r.type = f.type and r.rank >= k.rank
                   order by r.rank limit 1) x) h on f.is_over
), waiting as materialized (
    (select 'scheduled' as state, r.queue, r.size from longshore.scheduled r limit $1)
    union all
    (select 'parked', r.queue, 1 from longshore.parked r limit $1)
), many as materialized (
    select w.state, count(*) >= $1 as is_over from waiting w group by w.state
)
select h.queue, 'ready' as state, sum(h.jobs)::bigint as jobs, 0::bigint as buffered,
       min(h.oldest) as oldest, bool_or(h.is_over) as is_over
  from head h group by h.queue
union all
select w.queue, w.state, sum(w.size)::bigint, 0, null, m.is_over
  from waiting w join many m using (state) group by w.queue, w.state, m.is_over
union all
select h.queue, 'running', h.running, h.buffered, null, false from held h
union all
select f.queue, f.state, sum(f.jobs)::bigint, 0, null, false
  from (select t.queue, t.state, t.jobs from longshore.tallied t
        union all
        select h.queue, 'succeeded', h.succeeded from held h) f
 group by f.queue, f.state
union all
select substr(t.name, 8), 'pruned', t.number, 0, null, false from longshore.total t
 where starts_with(t.name, 'pruned/')

-- counts_of_tenant: counts for one tenant. Looks at every span that waits. tenant
with line as materialized (
    select t.token, t.segment, t.ordinal, t.delivery, max(t.kind) as kind
      from longshore.told t group by t.token, t.segment, t.ordinal, t.delivery
), told as materialized (
    select c.token, c.number, c.part,
           count(*) filter (where t.kind = 0) as begun,
           count(*) filter (where t.kind = 1) as succeeded,
           count(*) filter (where t.kind >= 1) as ended
      from line t
      join longshore.claim c
        on c.token = t.token and c.segment = t.segment and c.delivery = t.delivery
       and t.ordinal >= c.lo and t.ordinal < c.hi and longshore.has(c.mask, t.ordinal)
      join longshore.segment s on s.segment = c.segment
     where coalesce(s.tenants[t.ordinal + 1], s.tenant) = $1
     group by c.token, c.number, c.part
), held as materialized (
    select s.queue, sum(w.jobs - coalesce(t.ended, 0)) as running,
           sum(w.jobs - coalesce(t.ended + t.begun, 0)) as buffered,
           coalesce(sum(t.succeeded), 0) as succeeded
      from longshore.claim c
      join longshore.segment s on s.segment = c.segment
     cross join lateral longshore.owners(s, c.lo, c.hi, c.mask, c.size) w
      left join told t on t.token = c.token and t.number = c.number and t.part = c.part
     where w.tenant = $1
     group by s.queue
)
select r.queue, 'ready' as state, sum(w.jobs)::bigint as jobs, 0::bigint as buffered,
       min(r.run_at) as oldest
  from longshore.ready r join longshore.segment s on s.segment = r.segment
 cross join lateral longshore.owners(s, r.lo, r.hi, r.mask, r.size) w
 where w.tenant = $1 group by r.queue
union all
select r.queue, 'parked', count(*), 0, null
  from longshore.parked r where r.tenant = $1 group by r.queue
union all
select r.queue, 'scheduled', sum(w.jobs)::bigint, 0, null
  from longshore.scheduled r join longshore.segment s on s.segment = r.segment
 cross join lateral longshore.owners(s, r.lo, r.hi, r.mask, r.size) w
 where w.tenant = $1 group by r.queue
union all
select h.queue, 'running', h.running::bigint, h.buffered::bigint, null from held h
union all
select f.queue, f.state, sum(f.jobs)::bigint, 0, null
  from (select t.queue, t.state, t.jobs from longshore.tallied t where t.tenant = $1
        union all
        select h.queue, 'succeeded', h.succeeded from held h) f
 group by f.queue, f.state

-- counts_sampled: about how many jobs wait, by queue and state, from so many pages of each table.
-- The same pages each time, so that an estimate moves with what it is of. most pages
with share as materialized (
    select t.state,
           least(100.0, 100.0 * $1::bigint / greatest(
               pg_relation_size(t.name) / current_setting('block_size')::bigint, 1)) as percent
      from (values ('ready', 'longshore.ready'::regclass),
                   ('scheduled', 'longshore.scheduled'::regclass),
                   ('parked', 'longshore.parked'::regclass)) as t (state, name)
), found as (
    select 'ready' as state, r.queue, sum(r.size) as jobs from longshore.ready r
           tablesample system ((select percent from share where state = 'ready'))
           repeatable (1) group by r.queue
    union all
    select 'scheduled', r.queue, sum(r.size) from longshore.scheduled r
           tablesample system ((select percent from share where state = 'scheduled'))
           repeatable (1) group by r.queue
    union all
    select 'parked', r.queue, count(*) from longshore.parked r
           tablesample system ((select percent from share where state = 'parked'))
           repeatable (1) group by r.queue
)
select f.queue, f.state, (f.jobs * 100 / s.percent)::bigint as jobs
  from found f join share s using (state)
