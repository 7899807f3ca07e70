-- queues_ready: the queues that have jobs to claim, however many jobs there are.
-- Skips from one queue to the next in longshore_ready: one seek per queue.
with recursive present (queue) as (
    select min(queue) from longshore_ready
    union all
    select (select min(queue) from longshore_ready where queue > present.queue)
      from present where present.queue is not null
)
select json_group_array(queue) from present where queue is not null
