-- job_find: some jobs of a listing, newest first, and where the next look begins.
-- state, queue, type, tenant, tag, each or null; handle to begin below; most jobs, most spans
-- A segment's payloads are read once for all its jobs.
with look as materialized (
    select c.segments, c.beyond
      from longshore.candidates($1, $2, $3, $4, $5, ($6::bigint - 1) >> 12, $7, $8) c
), picked as materialized (
    select p.segment, p.ordinal
      from look c
     cross join lateral unnest(c.segments) as g (segment)
     cross join lateral longshore.places(g.segment, null) p
      join longshore.segment s on s.segment = g.segment
     where (p.segment << 12 | p.ordinal) < $6
       and ($1 is null or p.state = $1)
       and ($5::text is null or s.attributes -> p.ordinal::text -> 'tags' ? $5)
     order by p.segment desc, p.ordinal desc
     limit $7
), content as materialized (
    select s.segment, y.place - 1 as ordinal, y.payload
      from (select distinct p.segment from picked p) g
      join longshore.segment s on s.segment = g.segment
     cross join lateral unnest(s.payloads) with ordinality as y (payload, place)
     where (s.segment, y.place - 1) in (select p.segment, p.ordinal from picked p)
)
select c.beyond, j.handle, j.id, j.type, j.queue, j.tenant, j.state, j.priority, y.payload,
       j.run_at, j.created_at, j.max_attempts, j.timeout, j.delivery, j.attempt, j.failures,
       j.crashes, j.lapses, j.started_at, j.finished_at, j.result, j.failure, j.reason,
       j.worker, j.cancel_requested, j.unique_key, j.idempotency_key, j.ordering_key, j.trace,
       j.tags
  from look c
  left join (picked p
       cross join lateral longshore.seen(p.segment, p.ordinal) j
       join content y on y.segment = p.segment and y.ordinal = p.ordinal) on true
 order by j.handle desc
