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
