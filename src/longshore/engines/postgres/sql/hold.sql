-- hold: lock the spans in which these jobs wait or lie, and the sessions that hold them, so
-- that they stay as they are until the transaction ends. ids
with wanted as materialized (
    select l.segment, l.ordinal from unnest($1::uuid[]) as w (id)
      join longshore.locator l on l.id = w.id
), ready as materialized (
    select r.ctid as span, r.* from longshore.ready r
     where r.segment = any (array(select w.segment from wanted w))
       and exists (select from wanted w
                    where w.segment = r.segment and w.ordinal >= r.lo and w.ordinal < r.hi
                      and longshore.has(r.mask, w.ordinal))
     order by r.segment, r.hi for update
), scheduled as materialized (
    select r.ctid as span, r.* from longshore.scheduled r
     where r.segment = any (array(select w.segment from wanted w))
       and exists (select from wanted w
                    where w.segment = r.segment and w.ordinal >= r.lo and w.ordinal < r.hi
                      and longshore.has(r.mask, w.ordinal))
     order by r.segment, r.hi for update
), finished as materialized (
    select r.ctid as span, r.* from longshore.finished r
     where r.segment = any (array(select w.segment from wanted w))
       and exists (select from wanted w
                    where w.segment = r.segment and w.ordinal >= r.lo and w.ordinal < r.hi
                      and longshore.has(r.mask, w.ordinal))
     order by r.segment, r.hi for update
), holder as materialized (
    select s.token from longshore.session s
     where s.token = any (array(
           select c.token from longshore.claim c join wanted w
               on w.segment = c.segment and w.ordinal >= c.lo and w.ordinal < c.hi
              and longshore.has(c.mask, w.ordinal)))
     order by s.token for share
)
select 'ready' as home, r.span, null::bigint as token, r.segment, r.lo, r.hi, r.mask, r.run_at,
       r.rank, r.is_replayed
  from ready r
union all
select 'scheduled', r.span, null, r.segment, r.lo, r.hi, r.mask, r.run_at, r.rank,
       r.is_replayed
  from scheduled r
union all
select 'finished', r.span, null, r.segment, r.lo, r.hi, r.mask, r.run_at, r.rank, false
  from finished r
union all
select 'claim', null, h.token, null, null, null, null, null, null, null from holder h
