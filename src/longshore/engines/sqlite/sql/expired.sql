-- expired: finished jobs past their retention, as one JSON text.
-- The payloads of the dead go into an event: together they stay below :weight, but one passes.
-- :state :before :limit :weight
-- reads longshore_job_finished.
select json_group_array(json_array(seq, hex(id), queue, type, tenant, hex(payload), reason))
  from (select *, sum(length(payload)) over (order by finished_at, seq) as so_far
          from (select seq, id, queue, type, tenant, reason, finished_at,
                       case when state = 'dead' then payload else x'' end as payload
                  from longshore_job indexed by longshore_job_finished
                 where state = :state and finished_at is not null and finished_at <= :before
                 order by finished_at
                 limit :limit))
 where so_far <= max(:weight, length(payload))
