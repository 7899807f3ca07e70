-- What workers hold, by queue: for counts, and for counts that look at no more than so much.
-- longshore: works-with 0021

-- One seek per claim for its segment: segments are many, claims are few.
create view longshore.held as
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
     group by c.token, c.number, c.part
)
select s.queue, sum(c.size - coalesce(t.ended, 0))::bigint as running,
       sum(c.size - coalesce(t.ended + t.begun, 0))::bigint as buffered,
       coalesce(sum(t.succeeded), 0)::bigint as succeeded
  from longshore.claim c
 cross join lateral (
       select x.queue from longshore.segment x where x.segment = c.segment offset 0) s
  left join told t on t.token = c.token and t.number = c.number and t.part = c.part
 group by s.queue;
