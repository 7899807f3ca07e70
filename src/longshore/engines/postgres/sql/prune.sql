-- Prune: what is past its retention.

-- expire: take jobs past their retention out of the finished; the spans that were. They are to
-- be forgotten in the same transaction. state, last moment, most jobs
select segment, lo, hi, size, mask from longshore.expire($1, $2, $3, null)

-- expire_dead: the same for dead jobs, with what an audit needs. last moment, most jobs and bytes
select segment, lo, hi, size, mask, reason, queue, type, tenant, ids, payloads, bounds,
       types, tenants, attributes
  from longshore.expire_dead_whole($1, $2, $3)

-- expire_told: jobs past their retention that succeeded in spans which these sessions still hold.
-- To be called when the sessions are held, for what they told meanwhile is not seen otherwise.
-- tokens, last moment, most jobs
select p.token, p.segment << 12 | p.ordinal as handle, p.delivery, p.segment,
       p.ordinal::smallint as lo, (p.ordinal + 1)::smallint as hi, null::bytea as mask,
       1::smallint as size
  from (select distinct c.segment from longshore.claim c where c.token = any ($1)) g
 cross join lateral longshore.places(g.segment, null) p
 where p.home = 'claim' and p.state = 'succeeded' and p.token = any ($1)
   and p.finished_at <= $2
 limit $3

-- prune_old: delete what is too old; how many rows. The last moments of idempotency keys, events
-- and firings, limit
select longshore.prune_old($1, $2, $3, $4)

-- pruned_add: remember how many jobs were pruned of each queue. In order, so that two who do it
-- cannot wait for each other. queues, jobs
insert into longshore.total as t (name, number)
select 'pruned/' || x.queue, x.jobs
  from unnest($1::text[], $2::bigint[]) as x (queue, jobs)
 order by x.queue
    on conflict (name) do update set number = t.number + excluded.number

-- pruned_forget: no longer remember how much was pruned of queues that have nothing that ended,
-- but for those that someone else adds to. Those that were just pruned keep it: where jobs still
-- end, nothing may be left at this moment. queues that were
delete from longshore.total t where t.ctid = any (array(
    select x.ctid from longshore.total x
     where starts_with(x.name, 'pruned/')
       and substr(x.name, 8) <> all ($1::text[])
       and substr(x.name, 8) not in (
           select t.queue from longshore.tallied t group by t.queue having sum(t.jobs) > 0)
       and substr(x.name, 8) not in (
           select h.queue from longshore.held h where h.succeeded > 0)
       for update skip locked))

-- pruned_queues: how many jobs of spans that expired are of which queue, before they are forgotten.
-- segments, sizes
select s.queue, sum(x.size)::bigint as jobs
  from unnest($1::bigint[], $2::smallint[]) as x (segment, size)
  join longshore.segment s on s.segment = x.segment
 group by s.queue
