-- Queues: limits, pauses and token buckets.

-- flow_delete: let nothing hold for a queue. queue
delete from longshore.flow where queue = $1

-- flow_hold: let nobody claim from a queue with a limit until the transaction ends. queue
select pg_advisory_xact_lock(longshore.flow_key($1))

-- flow_put: let this hold for a queue. queue, settings
insert into longshore.flow (queue, settings) values ($1, $2::text::jsonb)
    on conflict (queue) do update set settings = excluded.settings

-- flow_reset: let the rate of a queue be full again. queue
update longshore.flow set empty_at = null where queue = $1

-- flows: the queues of which something is said, and what is left of their rates.
select queue, empty_at from longshore.flow

-- pause: stop handing out. queue, type
insert into longshore.pause (queue, type) values ($1, $2) on conflict do nothing

-- paused_queues: queues that are paused whole.
select queue from longshore.pause where queue <> '' and type = ''

-- resume: hand out again. queue, type
delete from longshore.pause where queue = $1 and type = $2

-- bucket_hold: what is stored of a bucket, for this transaction alone. name, clock
select empty_at, now from longshore.bucket_hold($1, $2)

-- bucket_prune: forget buckets that are full; how many. clock, most
select longshore.prune_buckets($1, $2)

-- bucket_put: store a bucket that this transaction holds. name, empty at, full at
update longshore.bucket set empty_at = $2, full_at = $3 where name = $1

-- lanes_forget: forget how far a queue is that is not fair, and its tenants. queue
with gone as (delete from longshore.fair where queue = $1)
update longshore.flow set vtime = 0, sorted_by = null where queue = $1

-- lanes_put: let all that is ready in a queue that has become fair be in lanes. queue
with sorted as (select longshore.sort_lanes($1))
update longshore.flow set sorted_by = pg_current_xact_id() where queue = $1
   and exists (select from sorted)

-- tenant_weight_delete: let a tenant have the usual share of fair queues. tenant
delete from longshore.tenant_weight where tenant = $1

-- tenant_weight_put: let a tenant have this share of fair queues. tenant, weight
insert into longshore.tenant_weight (tenant, weight) values ($1, $2)
    on conflict (tenant) do update set weight = excluded.weight
