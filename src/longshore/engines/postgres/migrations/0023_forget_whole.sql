-- The ids of a segment are read once, and not once for each of its jobs.
-- longshore: works-with 0021

-- Remove all that is left of jobs whose spans are gone, and of segments without a job.
-- One at a time: two that take the last spans of a segment would each leave it to the other.
create or replace function longshore.forget(
    p_segment bigint[], p_lo smallint[], p_hi smallint[], p_mask bytea[]
) returns void language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
    v_ids uuid[];
begin
    perform pg_advisory_xact_lock(7813585269108010867);
    select array_agg(encode(substring(s.ids from i * 16 + 1 for 16), 'hex')::uuid) into v_ids
      from unnest(p_segment, p_lo, p_hi, p_mask) as m (segment, lo, hi, mask)
           cross join lateral (
               -- Joined to nothing, so that it is read as a whole: a part is a look of its own.
               select x.ids || ''::bytea as ids
                 from longshore.segment x where x.segment = m.segment offset 0) s,
           generate_series(m.lo, m.hi - 1) i
     where longshore.has(m.mask, i);
    delete from longshore.locator l where l.id = any (v_ids);
    -- A submit that holds such a row in an open transaction gives the key to another job.
    delete from longshore.uniqueness u where u.ctid = any (array(
        select k.ctid from longshore.uniqueness k where k.id = any (v_ids)
           for update skip locked));
    delete from longshore.result r where r.ctid = any (array(
        select x.ctid
          from unnest(p_segment, p_lo, p_hi, p_mask) as m (segment, lo, hi, mask)
         cross join lateral (
               select x.ctid from longshore.result x
                where x.segment = m.segment and x.ordinal >= m.lo and x.ordinal < m.hi
                  and longshore.has(m.mask, x.ordinal) offset 0) x));
    delete from longshore.attempt a where a.ctid = any (array(
        select x.ctid
          from unnest(p_segment, p_lo, p_hi, p_mask) as m (segment, lo, hi, mask)
         cross join lateral (
               select x.ctid from longshore.attempt x
                where x.segment = m.segment and x.ordinal >= m.lo and x.ordinal < m.hi
                  and longshore.has(m.mask, x.ordinal) offset 0) x));
    delete from longshore.progress g where g.ctid = any (array(
        select x.ctid
          from unnest(p_segment, p_lo, p_hi, p_mask) as m (segment, lo, hi, mask)
         cross join lateral (
               select x.ctid from longshore.progress x
                where x.segment = m.segment and x.ordinal >= m.lo and x.ordinal < m.hi
                  and longshore.has(m.mask, x.ordinal) offset 0) x));
    delete from longshore.segment s
     where s.segment = any (p_segment)
       and not exists (
           select from longshore.finished x where x.segment = s.segment offset 0)
       and not exists (
           select from longshore.claim x where x.segment = s.segment offset 0)
       and not exists (
           select from longshore.ready x where x.segment = s.segment offset 0)
       and not exists (
           select from longshore.scheduled x where x.segment = s.segment offset 0)
       and not exists (
           select from longshore.parked x where x.segment = s.segment offset 0);
end
$$;
